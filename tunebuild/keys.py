"""Content keys, pure: what an object, an artifact or a `built` entry is made of, as one digest.

A key is a digest of `Inputs`: everything that can change the bytes, and nothing that cannot (no working
folder, time, user, locale, PATH or host name). The record is kept apart from its digest, so two of them can
be compared and the first difference named. Headers are found without a preprocessor: `gcc -E` costs 33 ms a
row, a scan 0.1 ms; what the scan cannot see (system headers, computed includes) the cache re-verifies from
the depfile of the compile that made the entry.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

KEY_VERSION = "1"

ENVIRONMENT = (  # the names that reach a compiler and change what it writes
    "COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET", "SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS",
)  # fmt: skip

_STRING = rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_STRINGS = re.compile(rb"(" + _STRING + rb")", re.S)
_COMMENT = rb"/(?:/[^\n]*|\*.*?\*/)"
_COMMENTS = re.compile(_COMMENT, re.S)
_STRINGS_AND_COMMENTS = re.compile(_STRING + rb"|" + _COMMENT, re.S)
_QUOTE_BEFORE_COMMENT = re.compile(rb"[\"'][^\n]*/[/*]")
_BLANKS = re.compile(rb"[ \t\r\f\v]+")
_BYTES_SPLICE = re.compile(rb"\\\r?\n")
_SPLICE = re.compile(r"\\\r?\n")
_INCLUDE = re.compile(r'#[ \t]*(?:include|include_next|import|embed)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')


# --- the key -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that an output is made of. Order matters where it matters to the tool: flags, objects."""

    kind: str  # "object", "shared", "static", "exe", ...
    compiler: str  # its identity: content, version, target
    flags: tuple[str, ...]
    source: str = ""  # digest of the source text
    headers: tuple[tuple[str, str], ...] = ()  # (name relative to the project, digest)
    objects: tuple[str, ...] = ()  # digests, in link order
    stamps: tuple[tuple[str, str], ...] = ()  # (seat or companion, suffix)
    features: tuple[str, ...] = ()  # the resolved set, where a flag such as `native` asks for one
    environ: tuple[tuple[str, str], ...] = ()
    mode: str = ""
    tools: tuple[str, ...] = ()  # linker, archiver
    salt: str = ""


def key(inputs: Inputs) -> str:
    """The key of an output: 64 hexadecimal digits."""
    document = [KEY_VERSION, *(getattr(inputs, each.name) for each in fields(inputs))]
    return digest(json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode())


def difference(before: Inputs, after: Inputs) -> str:
    """The first thing that differs between two keys, in words; "" when nothing does.

    Another winner is named before the objects that come with it.
    """
    if before.stamps != after.stamps:
        return f"another winner: {_named(before.stamps, after.stamps)}"
    for each in fields(Inputs):
        old, new = getattr(before, each.name), getattr(after, each.name)
        if old != new:
            return _words(each.name, old, new)
    return ""


def _words(name: str, old: object, new: object) -> str:
    if not (isinstance(old, tuple) and isinstance(new, tuple)):
        plain = {"source": "its text changed", "compiler": "the compiler changed"}
        return plain.get(name, f"{name}: {old} -> {new}")
    if name == "headers":
        return f"header {_named(old, new)} changed"
    if name == "objects":
        return "an object that it is linked from changed"
    if name == "environ":
        return f"the environment changed: {_named(old, new)}"
    gone = " ".join(str(item) for item in old if item not in new)
    come = " ".join(str(item) for item in new if item not in old)
    return (
        f"{name}: {gone or 'nothing'} became {come or 'nothing'}"
        if gone or come
        else f"{name}: another order"
    )


def _named(old: tuple[tuple[str, str], ...], new: tuple[tuple[str, str], ...]) -> str:
    """The names whose values differ."""
    was, now = dict(old), dict(new)
    return ", ".join(k for k in dict.fromkeys((*was, *now)) if was.get(k) != now.get(k)) or "order"


def environment(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The part of the environment that a key holds."""
    return tuple((name, environ[name]) for name in ENVIRONMENT if environ.get(name))


def relative_flags(flags: Iterable[str], root: Path) -> tuple[str, ...]:
    """Flags with the project's own folder taken out of every path, so that a moved checkout hits."""
    inside = re.compile(re.escape(str(root)) + r"(?:/|(?![\w.-]))")
    return tuple(inside.sub(lambda match: "" if match[0].endswith("/") else ".", flag) for flag in flags)


# --- digests of text -----------------------------------------------------------------------------


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Digest of C text as `built` records it: comments and layout do not count."""
    return digest(_normalised(text.encode("utf-8", "surrogateescape")))


def normalised(text: str) -> str:
    """C text without comments; a run of blanks is one space, or one newline where it holds one.

    Strings stay as they are. A space is never removed altogether: `#define F (x)` and `#define F(x)` differ.
    """
    return _normalised(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _normalised(text: bytes) -> bytes:
    if b"\\\n" in text or b"\\\r" in text:
        text = _BYTES_SPLICE.sub(b"", text)
    if b"//" in text or b"/*" in text:
        if _QUOTE_BEFORE_COMMENT.search(text):  # a string may hold what looks like a comment
            text = _STRINGS_AND_COMMENTS.sub(_without_comment, text)
        else:
            text = _COMMENTS.sub(b" ", text)
    lines = [
        _line(line) if b'"' in line or b"'" in line else b" ".join(line.split()) for line in text.split(b"\n")
    ]
    return b"\n".join([line for line in lines if line])


def _line(line: bytes) -> bytes:
    """A line that has strings: code, string, code, ..."""
    parts = _STRINGS.split(line)
    parts[::2] = [_BLANKS.sub(b" ", part) for part in parts[::2]]
    return b"".join(parts).strip(b" ")


def _without_comment(match: re.Match[bytes]) -> bytes:
    return b" " if match[0][:1] == b"/" else match[0]


# --- headers -------------------------------------------------------------------------------------

Read = Callable[[Path], "str | None"]


Scan = Callable[[str, Path], tuple[Path, ...]]


def header_scanner(include: Iterable[Path], read: Read) -> Callable[[str, Path], tuple[Path, ...]]:
    """A function (text, its folder) -> the project headers it may include, transitively, each once.

    ``read`` gives a file's text, or None where there is no such file. An include that resolves to nothing is
    a system header. Conditions are not evaluated: a header under a false `#if` counts, which can only cost a
    hit. The function remembers what it read: use one a build, and drop it.
    """
    dirs = tuple(os.fspath(folder) for folder in include)
    texts: dict[str, str | None] = {}
    direct: dict[str, tuple[str, ...]] = {}
    resolved: dict[tuple[str, str, str], str | None] = {}
    closures: dict[tuple[str, ...], tuple[Path, ...]] = {}

    def load(path: str) -> str | None:
        if path not in texts:
            texts[path] = read(Path(path))
        return texts[path]

    def resolve(quoted: str, angled: str, folder: str) -> str | None:
        name = quoted or angled
        for each in (folder, *dirs) if quoted else dirs:
            path = os.path.normpath(os.path.join(each, name))
            if load(path) is not None:
                return path
        return None

    def named_in(text: str, folder: str) -> tuple[str, ...]:
        found: list[str] = []
        for match in _INCLUDE.finditer(text):
            if text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" \t"):
                continue  # a directive begins its line
            quoted, angled = match.groups("")
            asked = (quoted, angled, folder if quoted else "")
            if asked not in resolved:
                resolved[asked] = resolve(*asked)
            if (path := resolved[asked]) is not None:
                found.append(path)
        return tuple(found)

    def closure(first: tuple[str, ...]) -> tuple[Path, ...]:
        seen: dict[str, None] = {}
        pending = list(reversed(first))
        while pending:
            path = pending.pop()
            if path in seen:
                continue
            seen[path] = None
            if path not in direct:
                direct[path] = named_in(load(path) or "", os.path.dirname(path))
            pending.extend(reversed(direct[path]))
        return tuple(map(Path, seen))

    def scan(text: str, folder: Path) -> tuple[Path, ...]:
        first = named_in(text, os.fspath(folder))
        if first not in closures:  # the rows of a family include the same
            closures[first] = closure(first)
        return closures[first]

    return scan


def includes(text: str, folder: Path, include: Iterable[Path], read: Read) -> tuple[Path, ...]:
    """The project headers of one text; see `header_scanner`, which is faster for many."""
    return header_scanner(include, read)(text, folder)


def depfile(text: str) -> tuple[str, ...]:
    """The prerequisites that a compiler's -MD file names, in order, each once."""
    joined = _SPLICE.sub(" ", text)
    names: dict[str, None] = {}
    for rule in joined.splitlines():
        _, colon, right = rule.partition(": ")
        if colon and "\\" not in right and "$" not in right:
            names |= dict.fromkeys(right.split())
        elif colon:
            for name in re.findall(r"(?:\\.|[^\s\\])+", right):
                names[re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$")] = None
    return tuple(names)
