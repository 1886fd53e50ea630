"""Plain tables and wrapped lines for terminals: ASCII, 80 columns where the words allow it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Literal

WIDTH = 80
Colour = Literal["green", "yellow", "red", "dim"]
_CODES: dict[Colour, str] = {"green": "32", "yellow": "33", "red": "31", "dim": "2"}


def ascii_only(text: str) -> str:
    """One line for a terminal, whatever a file's names hold: `?` stands for what it may not know to show."""
    return "".join(char if " " <= char <= "~" else " " if char.isspace() else "?" for char in text)


def printable(text: str) -> str:
    """One line for a terminal that keeps letters of every script: `?` stands for what steers a terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


def shortened(text: str, most: int) -> str:
    """An expression on one line, its end left out when it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def painted(text: str, colour: Colour | None, on: bool) -> str:
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if on and colour else text


def padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells as wide as the widest of their column, never cut: a name that does not fit makes a long line."""
    cleaned = [[ascii_only(cell) for cell in row] for row in rows]
    columns = max((len(row) for row in cleaned), default=0)
    widths = [max((len(row[at]) for row in cleaned if at < len(row)), default=0) for at in range(columns)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in cleaned]


def table(rows: Sequence[Sequence[str]], *, indent: int = 2) -> list[str]:
    """Rows as left-aligned columns, two blanks apart. Rows may differ in length."""
    return [(" " * indent + "  ".join(cells)).rstrip() for cells in padded(rows)]


def wrapped(text: str, *, indent: int = 2, hang: int = 4, width: int = WIDTH) -> list[str]:
    """One paragraph, continued under a hanging indent; long words are kept whole."""
    return textwrap.wrap(
        ascii_only(text),
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
