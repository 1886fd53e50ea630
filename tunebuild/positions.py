"""Where each key of a TOML text stands, for messages; and which text is unsafe to hand to a parser.

tomllib gives no positions, so this scanner reads the same text once more, only when there is something to
report. It is linear, keeps its own stack, and never judges: on text that is not TOML it stops where it got.
`check_depth` guards the parser: a key of thousands of parts, deep nesting or a line of megabytes costs it seconds,
minutes or its stack.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]

MAX_KEY_PARTS = 64
MAX_NESTING = 64
MAX_LINE = 1_000_000  # characters; tomllib reads a string or a number of ten times as many for seconds

_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_LITERAL = re.compile(r"'[^'\n]*+'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*+'{3,5}", re.DOTALL)
_PART = r"""(?:(?<![A-Za-z0-9_-])[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS},}}")


class TooDeep(Exception):
    """A key of too many parts, values nested too deeply, or a line too long; ``offset`` is where."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class _Stop(Exception):
    """The text is not TOML from here on."""


def scan(text: str) -> dict[KeyPath, int]:
    """The offset of every key and array element, by its path; a table's is that of its first mention.

    An element of an array, of tables too, has its index in the path. Raises `TooDeep`.
    """
    scanner = _Scanner(text)
    with contextlib.suppress(_Stop):
        scanner.document()
    return scanner.found


def locate(found: Mapping[KeyPath, int], path: KeyPath) -> int:
    """The offset of ``path``, or of the nearest table above it that the text mentions; 0 without one."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path, 0)


def line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def line_and_column(starts: list[int], offset: int) -> tuple[int, int]:
    """Both from 1; columns count characters."""
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


def check_depth(text: str) -> None:
    """Raise `TooDeep` for text that would cost a parser dearly. Reads the lines once; scans on suspicion."""
    for line in text.split("\n"):
        if len(line) > MAX_LINE:
            raise TooDeep(text.index(line), f"a line of {len(line):,} characters; at most {MAX_LINE:,}")
        if line.count(".") >= MAX_KEY_PARTS and _LONG_KEY.search(line):
            scan(text)
            return


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {}
        self.lengths: dict[KeyPath, int] = {}  # arrays of tables: elements so far

    def document(self) -> None:
        base: KeyPath = ()
        while True:
            self._skip(_GAP)
            if self.at >= len(self.text):
                return
            if self.text.startswith("[", self.at):
                base = self._header()
            else:
                path = self._keys(base)
                self._expect("=")
                self._value(path)
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        double = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 2 if double else 1
        parts = self._parts()
        self._expect("]]" if double else "]")
        path: KeyPath = ()
        for position, (name, offset) in enumerate(parts):
            path = (*path, name)
            self.found.setdefault(path, offset)
            if double and position == len(parts) - 1:
                count = self.lengths.get(path, 0)
                self.lengths[path] = count + 1
                path = (*path, count)
                self.found[path] = start
            elif path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        return path

    def _keys(self, base: KeyPath) -> KeyPath:
        path = base
        for name, offset in self._parts():
            path = (*path, name)
            self.found.setdefault(path, offset)
        return path

    def _parts(self) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        while True:
            self._skip(_BLANK)
            start = self.at
            parts.append((self._part(), start))
            if len(parts) > MAX_KEY_PARTS:
                raise TooDeep(parts[0][1], f"a key of more than {MAX_KEY_PARTS} parts")
            self._skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _part(self) -> str:
        quote = self.text[self.at : self.at + 1]
        pattern = {'"': _BASIC, "'": _LITERAL}.get(quote, _BARE)
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _Stop
        self.at = match.end()
        word = match.group()
        if quote == "'":
            return word[1:-1]
        return _unescape(word[1:-1]) if quote == '"' else word

    def _value(self, path: KeyPath) -> None:
        """One value, with everything in it. The stack holds (path, elements so far or -1 for a table)."""
        stack: list[tuple[KeyPath, int]] = []
        while True:
            if self.text.startswith(("[", "{"), self.at):
                if len(stack) >= MAX_NESTING:
                    raise TooDeep(self.at, f"values nested more than {MAX_NESTING} deep")
                stack.append((path, 0 if self.text[self.at] == "[" else -1))
                self.at += 1
            else:
                self._scalar()
            while stack:
                self._skip(_GAP)
                if self.text.startswith(",", self.at):
                    self.at += 1
                    self._skip(_GAP)
                outer, count = stack[-1]
                if self.text.startswith("]" if count >= 0 else "}", self.at):
                    self.at += 1
                    stack.pop()
                    continue
                path = self._next(outer, count)
                if count >= 0:
                    stack[-1] = (outer, count + 1)
                break
            else:
                return

    def _next(self, outer: KeyPath, count: int) -> KeyPath:
        """Step to the next element of an array or the next value of an inline table."""
        if self.at >= len(self.text):
            raise _Stop
        if count >= 0:
            self.found[(*outer, count)] = self.at
            return (*outer, count)
        path = self._keys(outer)
        self._expect("=")
        return path

    def _scalar(self) -> None:
        for quote, pattern in (
            ('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL), ("", _SCALAR),
        ):  # fmt: skip
            if self.text.startswith(quote, self.at):
                match = pattern.match(self.text, self.at)
                if match is None or match.end() == self.at:
                    raise _Stop
                self.at = match.end()
                return

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _expect(self, token: str) -> None:
        self._skip(_BLANK)
        if not self.text.startswith(token, self.at):
            raise _Stop
        self.at += len(token)
        self._skip(_BLANK)


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def _unescape(word: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code is None:
            return _ESCAPES.get(match.group(3), match.group())
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else match.group()

    return _ESCAPE.sub(one, word) if "\\" in word else word
