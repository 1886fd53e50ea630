"""Every way this program stops on purpose: what, where, how to fix it, and the exit code.

Exit codes are those of the command line: 1 the work failed, 2 usage or configuration, 3 refused with
nothing changed. A traceback means a defect of ours, never of the user's input.
"""

from __future__ import annotations

from dataclasses import dataclass

WORK_FAILED = 1
USAGE = 2
REFUSED = 3


class TunebuildError(Exception):
    """A stop with a reason. ``what`` is one sentence; ``fix`` says what to do or write instead."""

    exit_code = WORK_FAILED

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  {self.fix}" if self.fix else head


class WorkFailed(TunebuildError):
    """The work itself failed: a compile error, a gate mismatch, a tuner that failed."""


class UsageError(TunebuildError):
    """The command line, the environment or a file of the project is wrong."""

    exit_code = USAGE


class Refused(TunebuildError):
    """Nothing was changed, on purpose: the noise ceiling, the control file, policy ``error``."""

    exit_code = REFUSED


class TooLoud(Refused):
    """This box is too loud to measure on now; a while later it may not be."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file the user wrote. ``line`` and ``column`` count from 1; 0 means unknown."""

    file: str
    line: int
    column: int
    key: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        head = f"{self.file}:{self.line}:{self.column}: {self.key}: {self.what}"
        return f"{head}\n  {self.fix}" if self.fix else head


class ConfigError(UsageError):
    """All the mistakes of a project's files, reported at once, in file order."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        count = len(mistakes)
        super().__init__(f"{count} mistake{'s' if count != 1 else ''}")
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(str(mistake) for mistake in self.mistakes)
