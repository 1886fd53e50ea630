"""Content keys, pure: what an object, an artifact or a `built` entry is made of, as one digest.

A key is a digest of `Inputs`: everything that can change the bytes, and nothing that cannot (no working
folder, time, user, locale, PATH or host name). The record is kept apart from its digest, so two of them can
be compared and the first difference named. Headers are found without a preprocessor: `gcc -E` costs 33 ms a
row, a scan 0.1 ms; what the scan cannot see (system headers) the cache re-verifies from the depfile of the
compile that made the entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_GAP = r"(?:[ \t]|/\*[^\n]*?\*/)*"
_NAMED = r'(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]\w*))'
_INCLUDE = re.compile(rf"(?:#|%:|\?\?=){_GAP}(include|include_next|import|embed)\b{_GAP}{_NAMED}")
_HAS_INCLUDE = re.compile(rf"\b(__has_include|__has_include_next|__has_embed)[ \t]*\([ \t]*{_NAMED}")
_ASSEMBLED = re.compile(r'\.(incbin|include)\b(?:[ \t]*\\?"([^"\\\n]+)\\?")?')
_NO_HEADER = (".j2", ".o", ".md", ".d")
_C = (".h", ".c", ".inc", ".def")  # text in which comments and layout do not count
_MADE = ("build/", "generated/")  # what we make of a tree


# --- the key -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that an output is made of. Order matters where it matters to the tool: flags, objects."""

    kind: str  # "object", "shared", "static", "exe", ...
    compiler: str  # its identity: content, version, target
    flags: tuple[str, ...]
    source: str = ""  # digest of the source text
    headers: tuple[
        tuple[str, str], ...
    ] = ()  # (name relative to the project, digest); of a link its libraries
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
            return _words(each.name, old, new, after.kind)
    return ""


def _words(name: str, old: object, new: object, kind: str) -> str:
    if not (isinstance(old, tuple) and isinstance(new, tuple)):
        plain = {"source": "its text changed", "compiler": "the compiler changed"}
        return plain.get(name, f"{name}: {old} -> {new}")
    if name == "headers":
        return f"{'library' if kind == 'link' else 'header'} {_named(old, new)} changed"
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


# --- files that a line names ---------------------------------------------------------------------


def asks_for_native(words: Iterable[str]) -> bool:
    """Whether what a line makes depends on the machine where it runs."""
    return any(word in ("-march=native", "-mtune=native", "-mcpu=native") for word in words)


def named(words: Iterable[str]) -> tuple[str, ...]:
    """What may be files among the words of a command line: a word, what is behind its `@` or `=`, and so for
    each part of a word of -Wl, -Wa or -Wp."""
    found: dict[str, None] = {}
    for part in _parts(words):
        each = part.partition("=")[2] if part.startswith("-") else part.removeprefix("@")
        if each and not each.startswith("-"):
            found[each] = None
    return tuple(found)


def _parts(words: Iterable[str]) -> Iterator[str]:
    """The words that the driver passes on are split as it splits them."""
    for word in words:
        yield from word.split(",")[1:] if word.startswith(("-Wl,", "-Wa,", "-Wp,")) else (word,)


def expanded(words: Iterable[str], root: Path, depth: int = 4) -> tuple[str, ...]:
    """The words with those of each response file (`@FILE`) behind it, as the driver would read them."""
    found: list[str] = []
    for word in words:
        found.append(word)
        if word.startswith("@") and depth:
            with contextlib.suppress(OSError, ValueError):
                found += expanded(shlex.split((root / word[1:]).read_text()), root, depth - 1)
    return tuple(found)


def files_of(words: Sequence[str], root: Path) -> tuple[Path, ...]:
    """The files that the words of a line name, ours left out; of a folder with profiles, every profile."""
    found: dict[Path, None] = {}
    for name in named(words):
        path = Path(os.path.normpath(root / name))
        if f"{os.path.relpath(path, root)}/".startswith(_MADE):
            continue
        if path.is_file():
            found[path] = None
        elif f"-fprofile-use={name}" in words and path.is_dir():
            found |= dict.fromkeys(sorted(path.glob("*.gcda")))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Libraries:
    """What a link line reads beside its objects, as it names them, and the folders where it looks for more."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def libraries_of(words: Sequence[str], environ: Mapping[str, str], root: Path) -> Libraries:
    """The files that the words of a link line name, and what lies in its own folders under an asked name.

    Which of a shared and a static library is taken the linker knows: both count, in every folder.
    """
    words = expanded(words, root)
    parts = tuple(_parts(words))
    asked = {option: _behind(parts, option) for option in ("-L", "-l")}
    folders = tuple(dict.fromkeys((*asked["-L"], *_listed(environ, "LIBRARY_PATH"))))
    files = [
        os.path.join(folder, name)
        for library in asked["-l"]
        for name in ((library[1:],) if library[:1] == ":" else (f"lib{library}.so", f"lib{library}.a"))
        for folder in folders
    ]
    there = [name for name in (*named(words), *files) if os.path.isfile(os.path.join(root, name))]
    return Libraries(tuple(dict.fromkeys(there)), folders)


def _behind(words: Sequence[str], option: str) -> list[str]:
    """What is behind an option of one letter, joined to it or as the next word."""
    following = iter(words)
    return [word.removeprefix(option) or next(following, "") for word in following if word.startswith(option)]


# --- digests of text -----------------------------------------------------------------------------


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_c(name: str) -> bool:
    """Whether a file that a text includes is C by its name; any other is data, in which every byte counts."""
    return name.endswith(_C)


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


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a compile line looks for headers, in order. ``forced``: files that it includes before the text.
    ``named``: others that its words name, such as profiles, specs or response files."""

    quoted: tuple[str, ...] = ()
    angled: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    named: tuple[Path, ...] = ()


def folders_of(flags: Sequence[str], environ: Mapping[str, str], root: Path) -> Folders:
    """What the flags of a compile line in ``root``, and the environment, say of headers; the compiler's own
    folders left out."""
    found: dict[str, list[str]] = {option: [] for option in _FOLDER_OPTIONS}
    flags = expanded(flags, root)
    words = iter(flags)
    for word in words:
        long, equals, value = word.partition("=")
        option = next((each for each in _FOLDER_OPTIONS if word.startswith(each)), "")
        if long in _LONG_OPTIONS:
            found[_LONG_OPTIONS[long]].append(value if equals else next(words, ""))
        elif option and word != "-include-pch":
            found[option].append(word.removeprefix(option) or next(words, ""))
    first = _listed(environ, "CPATH")
    last = _listed(environ, "C_INCLUDE_PATH")
    angled = (*found["-I"], *first, *found["-isystem"], *last, *found["-idirafter"])
    forced = (*found["-include"], *found["-imacros"])
    return Folders((*found["-iquote"], *angled), angled, forced, files_of(flags, root))


_FOLDER_OPTIONS = ("-include", "-imacros", "-iquote", "-isystem", "-idirafter", "-I")
_LONG_OPTIONS = {
    "--include": "-include",
    "--imacros": "-imacros",
    "--include-directory": "-I",
    "--include-directory-after": "-idirafter",
}


def _listed(environ: Mapping[str, str], name: str) -> list[str]:
    return [folder or "." for folder in environ[name].split(os.pathsep)] if environ.get(name) else []


def header_scanner(folders: Folders, root: Path, read: Read, made: Iterable[str] = ()) -> Scan:
    """A function (text, its folder) -> the project headers it may include, transitively, each once.

    ``read`` gives a file's text, or None where there is no such file. An include that resolves to nothing is
    a system header. Conditions are not evaluated: a header under a false `#if` counts, which can only cost a
    hit; so does every place of an `include_next`. Where a macro names what is included, every header that can
    be reached counts, with those of ``made``, which may not be on the disk yet. Relative folders are below
    ``root``. The function remembers what it read: use one a build, and drop it.
    """
    quoted_dirs, angled_dirs = (
        tuple(os.path.join(root, each) for each in dirs) for dirs in (folders.quoted, folders.angled)
    )
    texts: dict[str, str | None] = {}
    direct: dict[str, tuple[str, ...]] = {}
    resolved: dict[tuple[str, str, str], tuple[str, ...]] = {}
    closures: dict[tuple[str, ...], tuple[Path, ...]] = {}
    reachable: dict[str, tuple[str, ...]] = {}

    rows = os.path.join(root, "generated", "")

    def is_made(path: str) -> bool:
        """A text that is generated to be compiled by itself."""
        return path.startswith(rows) and path.endswith(".c")

    def load(path: str) -> str | None:
        if path not in texts:
            texts[path] = read(Path(path))
        return texts[path]

    def places(quoted: str, angled: str, folder: str) -> Iterator[str]:
        for each in (folder, *quoted_dirs) if quoted else angled_dirs:
            path = os.path.normpath(os.path.join(each, quoted or angled))
            if load(path) is not None:
                yield path

    def assembled(text: str, folder: str) -> Iterator[str]:
        """What the assembler includes: it looks in the folder where it runs, then in those of the line."""
        for how, name in _ASSEMBLED.findall(text):
            if name:
                folders_tried = (os.fspath(root), *angled_dirs)
                tried = (os.path.normpath(os.path.join(each, name)) for each in folders_tried)
                yield from [path for path in tried if load(path) is not None][:1]
            elif how == "incbin":
                yield from all_of(folder)

    def all_of(folder: str) -> tuple[str, ...]:
        """Every header that lies in a folder of the line, or beside the text."""
        if folder not in reachable:
            found = {os.path.join(root, name) for name in made}
            for each in quoted_dirs:
                for above, _, names in os.walk(each):
                    found |= {os.path.normpath(os.path.join(above, name)) for name in names}
            with contextlib.suppress(OSError):
                found |= {os.path.join(folder, name) for name in os.listdir(folder)}
            kept = (path for path in sorted(found) if not path.endswith(_NO_HEADER) and not is_made(path))
            reachable[folder] = tuple(path for path in kept if load(path) is not None)
        return reachable[folder]

    def named_in(text: str, folder: str) -> tuple[str, ...]:
        if "\\\n" in text or "\\\r" in text:
            text = _SPLICE.sub("", text)
        found: list[str] = []
        for match in (*_INCLUDE.finditer(text), *(_HAS_INCLUDE.finditer(text) if "__has_" in text else ())):
            before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            how, quoted, angled, macro = match.groups("")
            if not how.startswith("__") and before.rpartition("*/")[2].strip(" \t"):
                continue  # a directive begins its line
            if macro:
                found += all_of(folder)
                continue
            asked = (quoted, angled, folder if quoted else "")
            if asked not in resolved:
                resolved[asked] = tuple(places(*asked))
            found += resolved[asked] if how.endswith("next") else resolved[asked][:1]
        if ".inc" in text:
            found += assembled(text, folder)
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

    def forced() -> Iterator[str]:
        for name in folders.forced:
            found = next(places(name, "", os.fspath(root)), None)
            if found is not None:
                yield found

    always = (*forced(), *map(os.fspath, folders.named))

    def scan(text: str, folder: Path) -> tuple[Path, ...]:
        first = (*always, *named_in(text, os.fspath(folder)))
        if first not in closures:  # the rows of a family include the same
            closures[first] = closure(first)
        return closures[first]

    return scan


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
