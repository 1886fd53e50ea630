"""Words on the command line -> a flow -> a report -> an exit code. Only this module prints and exits."""

from __future__ import annotations

import os
import sys

from tunebuild import memo

HEARD_S = 1.5  # a signal whose exception was dropped is raised again; ending children takes less


def main(arguments: list[str] | None = None) -> None:
    """The console command. A no-op build becomes ninja before anything else is imported."""
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["--version"], ["-V"]):
        from tunebuild import __version__

        print(f"tunebuild {__version__}")
        sys.exit(0)
    for name in ("stdout", "stderr"):  # closed by the caller: nobody listens, which is no error
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (for the process's life)
    memo.try_build(words)
    sys.exit(_guarded(words))


def _guarded(words: list[str]) -> int:
    """Run a command; end as a command should: words on standard error, a code, no traceback for a user's
    mistake, 128 + n for a signal."""
    import signal

    from tunebuild.errors import TunebuildError

    for number in _ending_signals():
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup it stays ignored
            signal.signal(number, _ended)
    signal.signal(signal.SIGALRM, _ended_still)
    try:
        from tunebuild import commands

        code = commands.run(words)
        sys.stdout.flush()
        return code
    except TunebuildError as error:
        return _stop(words, str(error), error.exit_code, where=error.where, fix=error.fix)
    except _Ended as ended:
        signal.setitimer(signal.ITIMER_REAL, 0)
        name = signal.Signals(ended.number).name
        word = "interrupted" if ended.number == signal.SIGINT else f"ended by {name}"
        from tunebuild import children

        if children.RELAYED in os.environ:  # who started us says it
            return 128 + ended.number
        return _stop(words, f"{word}; nothing more was written", 128 + ended.number)
    except BrokenPipeError:
        _close_stdout()  # the reader went away (`| head`): no words
        return 128 + signal.SIGPIPE
    except OSError as error:  # a full disk, a folder without rights: the machine's trouble, not a defect
        what = f"{error.strerror or error}: {error.filename or 'a file, or standard output'}"
        if error.filename is None:
            _close_stdout()
        return _stop(words, what, 1)


def _stop(words: list[str], what: str, code: int, *, where: str = "", fix: str = "") -> int:
    """Say why on standard error; with --json as the last line of standard output as well."""
    print(f"tunebuild: {what}", file=sys.stderr)
    if "--json" in (words[: words.index("--")] if "--" in words else words):
        import json

        try:
            print(json.dumps({"error": what, "where": where, "fix": fix, "exit": code}), flush=True)
        except OSError:
            _close_stdout()
    return code


def _close_stdout() -> None:
    """Let nothing be written any more, so that the interpreter's exit does not complain a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


_asked_to_end: list[int] = []


def _ending_signals() -> tuple[int, ...]:
    import signal

    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _ended(number: int, frame: object) -> None:
    """The first signal ends the command in order, the same once more at once. Another one changes nothing: Ctrl-C
    reaches a tuner as well as the command that ran it, which then asks the tuner to end."""
    import signal

    _asked_to_end.append(number)
    for each in _ending_signals():
        signal.signal(each, signal.SIG_DFL if each == number else _unheard)
    # Raised inside a destructor or a callback an exception is dropped, so it is raised until it is heard.
    signal.setitimer(signal.ITIMER_REAL, HEARD_S, 1.0)
    raise _Ended(number)


def _unheard(number: int, frame: object) -> None:
    """Of a signal that is pending when it is set to be ignored, the interpreter complains; one that does nothing is
    as good."""


def _ended_still(number: int, frame: object) -> None:
    if _asked_to_end:
        raise _Ended(_asked_to_end[0])
