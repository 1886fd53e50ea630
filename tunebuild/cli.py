"""Words on the command line -> a flow -> a report -> an exit code. Only this module prints and exits."""

from __future__ import annotations

import os
import sys

from tunebuild import memo


def main(arguments: list[str] | None = None) -> None:
    """The console command. A no-op build becomes ninja before anything else is imported."""
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["--version"], ["-V"]):
        from tunebuild import __version__

        print(f"tunebuild {__version__}")
        sys.exit(0)
    memo.try_build(words)
    sys.exit(_guarded(words))


def _guarded(words: list[str]) -> int:
    """Run a command; end as a command should: words on standard error, a code, no traceback for a user's
    mistake, 128 + n for a signal."""
    import signal

    from tunebuild.errors import TunebuildError

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup it stays ignored
            signal.signal(number, _ended)
    signal.signal(signal.SIGALRM, _ended_still)
    try:
        from tunebuild import commands

        code = commands.run(words)
        sys.stdout.flush()
        return code
    except TunebuildError as error:
        print(f"tunebuild: {error}", file=sys.stderr)
        return error.exit_code
    except _Ended as ended:
        signal.setitimer(signal.ITIMER_REAL, 0)
        name = signal.Signals(ended.number).name
        word = "interrupted" if ended.number == signal.SIGINT else f"ended by {name}"
        print(f"tunebuild: {word}; nothing more was written", file=sys.stderr)
        return 128 + ended.number
    except BrokenPipeError:
        # The reader went away (`| head`): no words, and no second complaint at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


_asked_to_end: list[int] = []


def _ended(number: int, frame: object) -> None:
    """The first signal ends the command in order, the second at once."""
    import signal

    _asked_to_end.append(number)
    signal.signal(number, signal.SIG_DFL)
    # Raised inside a destructor or a callback an exception is dropped, so it is raised until it is heard.
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    raise _Ended(number)


def _ended_still(number: int, frame: object) -> None:
    if _asked_to_end:
        raise _Ended(_asked_to_end[0])
