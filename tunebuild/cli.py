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

    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it stays ignored
        signal.signal(signal.SIGHUP, _terminated)
    try:
        from tunebuild import commands

        code = commands.run(words)
        sys.stdout.flush()
        return code
    except TunebuildError as error:
        print(f"tunebuild: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tunebuild: interrupted; nothing more was written", file=sys.stderr)
        return 128 + signal.SIGINT
    except _Terminated as ended:
        print(
            f"tunebuild: ended by {signal.Signals(ended.number).name}; nothing more was written",
            file=sys.stderr,
        )
        return 128 + ended.number
    except BrokenPipeError:
        # The reader went away (`| head`): no words, and no second complaint at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


class _Terminated(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


def _terminated(number: int, frame: object) -> None:
    raise _Terminated(number)
