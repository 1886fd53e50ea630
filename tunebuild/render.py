"""Templates to C text, one row at a time: the only module that runs Jinja on a family's template.

A template sees ``fn`` (the symbol that it must define), ``prototype`` (the C prototype with that symbol),
``family``, ``suffix`` and the row's values by name. It may call ``decline("why")``: the reference body then
serves the row. An undefined name, a syntax error or anything else that the template raises becomes a
`Mistake` with the template's file and line.

A template is code from a file that anyone may have sent: it runs in Jinja's sandbox, reads templates of its
own project only, and within `bounded` ends before it has cost a second or half a gigabyte.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
import resource
import signal
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import jinja2
import jinja2.meta
import jinja2.sandbox

from tunebuild.codegen import with_symbol
from tunebuild.errors import Mistake
from tunebuild.model import Declined, Function, Row

MAX_OUTPUT_BYTES = 4_000_000
MAX_ROW_S = 1.0  # of processor time, some thousand times what a large row takes
MAX_MEMORY_BYTES = 512_000_000
MAX_POWER_BITS = 4096


class _Decline(Exception):
    pass


def _decline(why: str) -> NoReturn:
    raise _Decline(str(why))


class _Outside(Exception):
    """A template that is a link to a file of nobody's project, or of another's."""


class _TooLong(BaseException):
    """No `except Exception` on the way may take it for an error of its own."""


class Boundless(Exception):
    """A row went over a bound; ``mistake`` says where. The family's other rows would as well."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.what)
        self.mistake = mistake


# --- where templates come from -------------------------------------------------------------------


class _Folder(jinja2.FileSystemLoader):
    """The templates of one folder, through no symbolic link that leads out of the project."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Any]:
        text, file, fresh = super().get_source(environment, template)
        read = Path(os.path.realpath(file))
        if not read.is_relative_to(os.path.realpath(_project(self.searchpath[0]))):
            raise _Outside(f"{template} is a link that leads out of the project, to {read}")
        return text, file, fresh


def _project(folder: str) -> str:
    """The project that a templates folder is of: the nearest folder at or above it with a tune.toml; itself without."""
    return next(
        (str(at) for at in (Path(folder), *Path(folder).parents) if (at / "tune.toml").exists()), folder
    )


_declared: set[str] = set()  # templates that tune.toml names outside their project's templates folder


def _load_declared(name: str) -> tuple[str, str, None] | None:
    return (Path(name).read_text(), name, None) if name in _declared else None


class _Environment(jinja2.sandbox.SandboxedEnvironment):
    """The sandbox, with one more limit: a power is one instruction that no timer interrupts."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_POWER_BITS:
            raise OverflowError(f"a power of more than {MAX_POWER_BITS} bits")
        return super().call_binop(context, operator, left, right)


_ADDRESS = re.compile(r"<[\w. ]+ at 0x[0-9a-f]{8,}>")
_PRINTED = (str, int, float, list, tuple, dict, type(None), jinja2.Undefined)


def _printed(value: Any) -> Any:
    """What an expression prints. The text of an object may hold its address, which is another each time."""
    if isinstance(value, _PRINTED):
        return value
    raise TypeError(f"a {type(value).__name__} has no text in C")


@functools.cache
def _environment(folder: Path) -> jinja2.Environment:
    environment = _Environment(
        loader=jinja2.ChoiceLoader([_Folder(folder), jinja2.FunctionLoader(_load_declared)]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,  # a stat a row
        cache_size=-1,
        finalize=_printed,
    )
    # Equal inputs give equal C.
    del environment.filters["random"], environment.globals["lipsum"]
    environment.globals["decline"] = _decline
    return environment


@functools.cache
def _template(folder: Path, template: Path) -> jinja2.Template:
    if template.is_relative_to(folder):
        return _environment(folder).get_template(template.relative_to(folder).as_posix())
    _declared.add(template.as_posix())
    return _environment(folder).get_template(template.as_posix())


def forget() -> None:
    """Templates may have been edited since the last rendering."""
    _environment.cache_clear()
    _template.cache_clear()
    _declared.clear()


# --- bounds ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bound what the rows rendered within may cost: memory, and processor time from each `render_row` on.

    Costs a few microseconds, where a process for each row would cost milliseconds. Signals reach the main
    thread only; in another one memory alone is bounded.
    """
    timed = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGPROF, _too_long) if timed else None
    _timing.extend([True] * timed)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + MAX_MEMORY_BYTES
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        if timed:
            _timing.clear()
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, before)


_timing: list[
    bool
] = []  # not empty while `_too_long` is the handler: asking the system costs as much as a row


def _too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise _TooLong


def _address_space() -> int:
    with open("/proc/self/statm", "rb", buffering=0) as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


# --- a row -----------------------------------------------------------------------------------------


def render_row(
    folder: Path, template: Path, family: str, function: Function, symbol: str, row: Row
) -> str | Declined | Mistake:
    """The C text of one row. ``folder`` is where the project's templates are included from.

    :raises Boundless: within `bounded`, for a row that takes too long or too much memory.
    """
    seen: dict[str, Any] = dict(row.values)
    seen |= {
        "fn": symbol,
        "prototype": with_symbol(function, symbol),
        "family": family,
        "suffix": row.suffix,
    }
    try:
        text = _rendered(folder, template, seen)
    except _TooLong as error:
        what = f"row {row.suffix}: still rendering after {MAX_ROW_S:g} s"
        raise Boundless(Mistake(*_place(error, template), f"family.{family}", what)) from None
    except MemoryError as error:
        what = f"row {row.suffix}: it takes more than {MAX_MEMORY_BYTES // 1_000_000} MB"
        raise Boundless(Mistake(*_place(error, template), f"family.{family}", what)) from None
    except _Decline as declined:
        return Declined(str(declined))
    except jinja2.TemplateSyntaxError as error:
        where = error.filename or str(template)
        return Mistake(where, error.lineno, 1, f"family.{family}", error.message or "syntax error")
    except _Outside as error:
        fix = "copy that file into the project"
        return Mistake(*_place(error, template), f"family.{family}", f"row {row.suffix}: {error}", fix)
    except jinja2.UndefinedError as error:
        return _undefined(error, error.message or "", template, family, row, seen)
    except Exception as error:
        if name := _undeclared(error, folder, template, seen):
            return _undefined(error, f"'{name}' is undefined", template, family, row, seen)
        return Mistake(
            *_place(error, template), f"family.{family}", f"row {row.suffix}: {type(error).__name__}: {error}"
        )
    if len(text) > MAX_OUTPUT_BYTES:
        return Mistake(
            str(template), 1, 1, f"family.{family}", f"row {row.suffix}: {len(text)} bytes of C",
            f"a row's C has at most {MAX_OUTPUT_BYTES} bytes",
        )  # fmt: skip
    if " at 0x" in text and (found := _ADDRESS.search(text)):
        what = f"row {row.suffix}: it prints {found[0]}, another address each time"
        return Mistake(str(template), 1, 1, f"family.{family}", what, "print a value, not what holds it")
    return text


def _rendered(folder: Path, template: Path, seen: dict[str, Any]) -> str:
    if not _timing:
        return _template(folder, template).render(seen)
    signal.setitimer(signal.ITIMER_PROF, MAX_ROW_S)
    try:  # reading it counts: constant expressions are worked out then
        return _template(folder, template).render(seen)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _undeclared(error: Exception, folder: Path, template: Path, seen: Mapping[str, Any]) -> str:
    """The name behind an error that says only that something is undefined, as `range` of one does."""
    if jinja2.StrictUndefined.__name__ not in str(error):
        return ""
    file, number, _ = _place(error, template)
    with contextlib.suppress(OSError, ValueError, jinja2.TemplateError):
        text, environment = Path(file).read_text(), _environment(folder)
        known = {*seen, *environment.globals}
        names = jinja2.meta.find_undeclared_variables(environment.parse(text)) - known
        line = text.splitlines()[number - 1 : number]
        return next((name for name in sorted(names) if line and re.search(rf"\b{name}\b", line[0])), "")
    return ""


def _undefined(
    error: Exception, message: str, template: Path, family: str, row: Row, seen: Mapping[str, Any]
) -> Mistake:
    """A name that nobody defines, at its own line: the engine knows only where the statement around it began."""
    file, line, column = _place(error, template)
    what = f"row {row.suffix}: {message}"
    fix = f"a template sees: {', '.join(sorted(seen))}"
    if named := re.match(r"'(\w+)' is undefined", message):
        with contextlib.suppress(OSError):
            lines = Path(file).read_text(errors="replace").splitlines()
            used = re.compile(rf"\{{[{{%].*?(?<![\w.])({named[1]})\b")
            places = [
                (at, found.start(1) + 1) for at, text in enumerate(lines, 1) if (found := used.search(text))
            ]
            line, column = min(places, key=lambda place: abs(place[0] - line), default=(line, column))
            own = re.findall(r"\{%-?\s*(?:set|for)\s+(\w+)", "\n".join(lines))
            near = difflib.get_close_matches(named[1], [*seen, *own], 1)
            fix = f"did you mean {near[0]}? {fix}" if near else fix
    return Mistake(file, line, column, f"family.{family}", what, fix)


def _place(error: BaseException, template: Path) -> tuple[str, int, int]:
    """File, line and column of the template line that raised."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.endswith(".j2"):
            return frame.filename, frame.lineno or 1, 1
    return str(template), 1, 1


# --- back from C to its template -------------------------------------------------------------------


def origin(folder: Path, template: Path, line: str) -> tuple[Path, int] | None:
    """The template's line that printed this line of C, in ``template`` or what it includes: the one that fits
    it with the most words of its own. None where several do, or none does.
    """
    best, places = 4, list[tuple[Path, int]]()
    for file, text in _sources(folder, template):
        for number, printed in enumerate(text.splitlines(), 1):
            own = [part.strip() for part in re.split(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", printed.strip())]
            weight = sum(map(len, own))
            if weight >= best and re.fullmatch(r"\s*.*?\s*".join(map(re.escape, own)), line.strip()):
                places = [*(places if weight == best else ()), (file, number)]
                best = weight
    return places[0] if len(places) == 1 else None


def _sources(folder: Path, template: Path) -> Iterator[tuple[Path, str]]:
    """A template and all that it includes, imports or extends, by names known without running it."""
    left, seen = [template], {template}
    while left:
        file = left.pop()
        try:
            text = file.read_text()
            named = jinja2.meta.find_referenced_templates(_environment(folder).parse(text))
        except (OSError, ValueError, jinja2.TemplateError):
            continue
        yield file, text
        more = {folder / name for name in named if name} - seen
        left += sorted(more)
        seen |= more
