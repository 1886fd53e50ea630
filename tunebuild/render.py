"""Templates to C text, one row at a time: the only module that runs Jinja on a family's template.

A template sees ``fn`` (the symbol that it must define), ``prototype`` (the C prototype with that symbol),
``family``, ``suffix`` and the row's values by name. It may call ``decline("why")``: the reference body then
serves the row. An undefined name, a syntax error or anything else that the template raises becomes a
`Mistake` with the template's file and line.
"""

from __future__ import annotations

import functools
import traceback
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.sandbox

from tunebuild.codegen import with_symbol
from tunebuild.errors import Mistake
from tunebuild.model import Declined, Function, Row

MAX_OUTPUT_BYTES = 4_000_000


class _Decline(Exception):
    pass


def _decline(why: str) -> NoReturn:
    raise _Decline(str(why))


@functools.cache
def _environment(folder: Path) -> jinja2.Environment:
    environment = jinja2.sandbox.SandboxedEnvironment(
        loader=jinja2.FileSystemLoader([folder, "/"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,  # a stat a row
        cache_size=-1,
    )
    environment.globals["decline"] = _decline
    return environment


@functools.cache
def _template(folder: Path, template: Path) -> jinja2.Template:
    name = template.relative_to(folder) if template.is_relative_to(folder) else template
    return _environment(folder).get_template(name.as_posix())


def forget() -> None:
    """Templates may have been edited since the last rendering."""
    _environment.cache_clear()
    _template.cache_clear()


def render_row(
    folder: Path, template: Path, family: str, function: Function, symbol: str, row: Row
) -> str | Declined | Mistake:
    """The C text of one row. ``folder`` is where the project's templates are included from."""
    seen: dict[str, Any] = dict(row.values)
    seen |= {
        "fn": symbol,
        "prototype": with_symbol(function, symbol),
        "family": family,
        "suffix": row.suffix,
    }
    try:
        text = _template(folder, template).render(seen)
    except _Decline as declined:
        return Declined(str(declined))
    except jinja2.TemplateSyntaxError as error:
        where = error.filename or str(template)
        return Mistake(where, error.lineno, 1, f"family.{family}", error.message or "syntax error")
    except jinja2.UndefinedError as error:
        names = ", ".join(sorted(seen))
        return Mistake(
            *_place(error, template), f"family.{family}", f"row {row.suffix}: {error.message}",
            f"a template sees: {names}",
        )  # fmt: skip
    except Exception as error:
        return Mistake(
            *_place(error, template), f"family.{family}", f"row {row.suffix}: {type(error).__name__}: {error}"
        )
    if len(text) > MAX_OUTPUT_BYTES:
        return Mistake(
            str(template), 1, 1, f"family.{family}", f"row {row.suffix}: {len(text)} bytes of C",
            f"a row's C has at most {MAX_OUTPUT_BYTES} bytes",
        )  # fmt: skip
    return text


def _place(error: BaseException, template: Path) -> tuple[str, int, int]:
    """File, line and column of the template line that raised."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.endswith(".j2"):
            return frame.filename, frame.lineno or 1, 1
    return str(template), 1, 1
