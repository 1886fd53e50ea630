"""tune.toml to a `Manifest` that makes sense as a whole, or to all the mistakes of its files at once.

The straight line: load each file (the root's, then those it uses), read each against `tables`, build the
projects, then families, modules, scopes and apps. Every step notes mistakes by key path and goes on;
positions are looked up at the end, only when there is something to report.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tunebuild import families as family_reader
from tunebuild import features, files, grid, positions, records, scopes
from tunebuild.errors import ConfigError, Mistake, UsageError
from tunebuild.flags import check_flags
from tunebuild.model import Family, FlagSet, Function, Isa, Manifest, Project, Toolchain, Value
from tunebuild.records import Note, Notes
from tunebuild.scopes import Joined
from tunebuild.tables import BuildTable, RootTable

FILE_NAME = "tune.toml"
DEFAULT_INCLUDE = "kernels/include"
MAX_BYTES = 16_000_000
MAX_SUGGESTED = 50  # did-you-mean costs time; the first mistakes get it


@dataclass(slots=True)
class Source:
    """One tune.toml as it was read."""

    file: Path
    text: str = ""
    notes: Notes = field(default_factory=Notes)
    table: RootTable | None = None
    parse_mistakes: list[Mistake] = field(default_factory=list)


def read(path: Path) -> Manifest:
    """The manifest of a folder, or of a tune.toml. Raises `ConfigError` with every mistake, or `UsageError`
    when there is no such file."""
    with collector_paused():
        return _read(path)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Reading and rendering make records by the hundred thousand and no cycles: collecting meanwhile is a
    third of the time, and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(path: Path) -> Manifest:
    files.forget()
    sources = _load_all(_file_of(path))
    joined = tuple(
        Joined(_project(source, table), table, source.notes)
        for source in sources
        if (table := source.table) is not None
    )
    if sources[0].table is None:
        raise ConfigError(_mistakes(sources))
    families = _families(joined)
    modules = scopes.modules(joined)
    all_scopes = scopes.scopes(joined, modules, families)
    apps = scopes.apps(joined, all_scopes, modules)
    measure = _measure(joined[0])
    if mistakes := _mistakes(sources):
        raise ConfigError(mistakes)
    tomls = tuple(source.file for source in sources)
    return Manifest(joined[0].project, modules, all_scopes, apps, families, measure, tomls)


def affected_files(manifest: Manifest) -> tuple[Path, ...]:
    """Every file whose content decides the manifest or the generated C, each once, in manifest order."""
    found: dict[Path, None] = dict.fromkeys(manifest.files)
    for family in manifest.families:
        named = [family.reference, family.template, family.source, family.oracle, *family.support]
        named += [file for other in family.companions for file in (other.reference, other.template)]
        found.update((file, None) for file in named if file is not None)
    for app in manifest.apps:
        found.update(dict.fromkeys(app.sources))
    return tuple(found)


# --- files -----------------------------------------------------------------------------------------


def _file_of(path: Path) -> Path:
    file = Path(os.path.abspath(path))
    file = file / FILE_NAME if file.is_dir() else file
    if not file.is_file():
        raise UsageError(
            f"there is no {FILE_NAME}",
            where=_shown(file),
            fix="run `tunebuild init`, or go to a project with -C",
        )
    return file


def _load_all(root: Path) -> list[Source]:
    """The root's file, then those it uses, depth first, each once. A cycle is a mistake."""
    loaded: dict[str, Source] = {}

    def load(file: Path, users: tuple[str, ...]) -> None:
        source = loaded.setdefault(os.path.realpath(file), Source(file))
        _parse(source)
        for name, use in (source.table.use if source.table else {}).items():
            where = ("use", name, "path")
            used = Path(os.path.normpath(file.parent / use.path))
            used = used if used.suffix == ".toml" else used / FILE_NAME
            real = os.path.realpath(used)
            if os.path.isabs(use.path) or used.suffix != ".toml":
                source.notes.add(where, f"`{use.path}` is no relative path of a project", "name its folder")
            elif not used.is_file():
                source.notes.add(where, f"`{use.path}` holds no {FILE_NAME}", "name a project's folder")
            elif real in (*users, os.path.realpath(file)):
                source.notes.add(
                    where, f"`{use.path}` uses this project in turn", "remove one of the two uses"
                )
            elif real not in loaded:
                load(used, (*users, os.path.realpath(file)))

    load(root, ())
    return list(loaded.values())


def _parse(source: Source) -> None:
    """Fill in text and table; what keeps the file from being TOML at all is a mistake with its position."""
    try:
        size = source.file.stat().st_size
        data = source.file.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        _stop(source, 0, f"cannot be read: {error.strerror}")
        return
    if size > MAX_BYTES:
        _stop(source, 0, f"{size:,} bytes; at most {MAX_BYTES:,}", "split it with [use.NAME]")
        return
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        source.text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        source.text = data[: error.start].decode(errors="replace")
        _stop(source, len(source.text), "bytes that are not UTF-8", "save the file as UTF-8")
        return
    raw = _toml(source)
    if raw is not None:
        source.table = records.read(RootTable, raw, (), source.notes)


def _toml(source: Source) -> dict[str, object] | None:
    try:
        positions.check_depth(source.text)
        return tomllib.loads(source.text)
    except positions.TooDeep as deep:
        _stop(source, deep.offset, deep.what, "no key of tune.toml needs that")
    except tomllib.TOMLDecodeError as error:
        _stop(source, *_decoded(str(error), source.text))
    except RecursionError:
        try:
            positions.scan(source.text)
            _stop(source, 0, "values nested too deeply", "no key of tune.toml needs that")
        except positions.TooDeep as deep:
            _stop(source, deep.offset, deep.what, "no key of tune.toml needs that")
    except (ValueError, OverflowError) as error:  # an integer of thousands of digits, a date that is none
        long = re.search(r"\d{4300}", source.text)
        _stop(source, long.start() if long else 0, f"not TOML: {str(error).split(';')[0]}")
    return None


def _decoded(message: str, text: str) -> tuple[int, str]:
    """tomllib's words with the offset they speak of."""
    what, _, at = message.rpartition(" (at ")
    numbers = [int(number) for number in re.findall(r"\d+", at)]
    if len(numbers) != 2:
        return len(text), f"not TOML: {what or message}"
    line, column = numbers
    return positions.line_starts(text)[line - 1] + column - 1, f"not TOML: {what}"


def _stop(source: Source, offset: int, what: str, fix: str = "") -> None:
    line, column = positions.line_and_column(positions.line_starts(source.text), offset)
    source.parse_mistakes.append(Mistake(_shown(source.file), line, column, "tune.toml", what, fix))


# --- projects --------------------------------------------------------------------------------------


def _project(source: Source, table: RootTable) -> Project:
    notes, root = source.notes, source.file.parent
    scopes.check_name(table.project.name, ("project", "name"), notes)
    build = table.build or BuildTable()
    _check_command(build.cc, ("build", "cc"), notes)
    check_flags(build.cflags, ("build", "cflags"), notes)
    _check_launcher(build.launcher, ("build", "launcher"), notes)
    usual = (DEFAULT_INCLUDE,) if (root / DEFAULT_INCLUDE).is_dir() else ()
    named = usual if build.include is None else build.include
    include = [
        files.inside(root, root, text, "folder", ("build", "include", index), notes)
        for index, text in enumerate(named)
    ]
    templates = files.inside(root, root, build.templates, "anything", ("build", "templates"), notes)
    return Project(
        name=table.project.name,
        root=root,
        file=source.file,
        cc=build.cc,
        cflags=build.cflags,
        include=tuple(filter(None, include)),
        templates=templates or root,
        launcher=build.launcher,
        toolchains=_toolchains(table, notes),
        isas=_isas(table, notes),
        flags=_flag_sets(table, notes),
    )


def _check_command(cc: str, path: positions.KeyPath, notes: Notes) -> None:
    if not cc.strip() or any(char < " " for char in cc):
        notes.add(path, f"{cc!r} is no command", 'write a compiler, such as "clang"')


def _check_launcher(launcher: str, path: positions.KeyPath, notes: Notes) -> None:
    if any(char < " " for char in launcher):
        notes.add(path, "a control character", "write a program's name")
        return
    try:
        shlex.split(launcher)
    except ValueError as error:
        notes.add(
            path, f"{launcher!r} is no command: {str(error).lower()}", 'write a program, such as "ccache"'
        )


def _toolchains(table: RootTable, notes: Notes) -> tuple[Toolchain, ...]:
    seen: dict[str, str] = {}
    for name, toolchain in table.toolchain.items():
        path = ("toolchain", name)
        scopes.check_name(name, path, notes)
        first = seen.setdefault(name.replace("-", "_"), name)
        if first != name:
            what = f"`{name}` and `{first}` are the same name in build.ninja"
            notes.add(path, what, "rename one of them")
        _check_command(toolchain.cc, (*path, "cc"), notes)
        check_flags(toolchain.cflags, (*path, "cflags"), notes)
        if toolchain.run and not toolchain.target:
            notes.add((*path, "run"), "an emulator without a target", 'write target = "aarch64"')
    return tuple(
        Toolchain(name, t.cc, t.cflags, t.optional, t.target, t.run) for name, t in table.toolchain.items()
    )


def _isas(table: RootTable, notes: Notes) -> tuple[Isa, ...]:
    """The built-in instruction sets and the project's own, which may replace a built-in one."""
    made = {isa.name: isa for isa in features.BUILTIN_ISAS}
    for name, isa in table.isa.items():
        path = ("isa", name)
        scopes.check_name(name, path, notes)
        requires = grid.requires_text(isa.requires)
        grid.check_requires(requires, (*path, "requires"), notes)
        check_flags(isa.cflags, (*path, "cflags"), notes)
        made[name] = Isa(name, requires, isa.cflags, features.arch_of(requires))
    return tuple(made.values())


def _flag_sets(table: RootTable, notes: Notes) -> tuple[FlagSet, ...]:
    for name, flag_set in table.flags.items():
        scopes.check_name(name, ("flags", name), notes)
        check_flags(flag_set.cflags, ("flags", name, "cflags"), notes)
    return tuple(FlagSet(name, flag_set.cflags) for name, flag_set in table.flags.items())


# --- families --------------------------------------------------------------------------------------


def _families(joined: tuple[Joined, ...]) -> tuple[Family, ...]:
    functions: dict[str, Function] = {}
    for one in joined:
        for name, table in one.table.family.items():
            path = ("family", name)
            function = family_reader.function_of(name, table.prototype, path, one.notes)
            if name in functions:
                one.notes.add(path, f"two projects have a family `{name}`", "rename one: names are global")
            elif function is not None:
                functions[name] = function
    made: dict[str, Family] = {}
    for one in joined:
        setting = family_reader.Setting(one.project, grid.names_of(one.project), functions, one.notes)
        for name, table in one.table.family.items():
            if name not in functions:
                family_reader.check_alone(name, table, setting)
            if name not in functions or name in made:
                continue
            family = family_reader.read(name, table, functions[name], setting)
            if family is not None:
                made[name] = family
    _check_symbols(joined)
    if not any(one.table.family for one in joined) and not joined[0].notes.within(("family",)):
        joined[0].notes.add((), "the project has no family", "write [family.NAME] with a prototype")
    return tuple(made.values())


def _check_symbols(joined: tuple[Joined, ...]) -> None:
    """Families and companions are C functions of one program, and each has a registry function beside it."""
    taken: dict[str, str] = {}
    for one in joined:
        taken.update((name, f"the family `{name}`") for name in one.table.family)
    for one in joined:
        for name, table in one.table.family.items():
            for companion in table.companion:
                path = ("family", name, "companion", companion)
                if companion in taken:
                    one.notes.add(path, f"`{companion}` is {taken[companion]} already", "rename it")
                taken.setdefault(companion, f"a companion of `{name}`")
    for one in joined:
        for name in one.table.family:
            stem = name.removesuffix("_variants")
            if stem != name and stem in taken:
                what = f"`{name}` is the registry of {taken[stem]}"
                one.notes.add(("family", name), what, "choose another name")


def _measure(root: Joined) -> tuple[tuple[str, Value], ...]:
    if not root.table.measure:
        return ()
    from tunebuild import measure

    known = [name for name, _, _ in measure.constant_docs()]
    for name, value in root.table.measure.items():
        path = ("measure", name)
        if name not in known:
            root.notes.unknown(path, f"no constant of the race is named `{name}`", name, known)
        elif problem := measure.override_problem(name, value):
            root.notes.add(path, f"{value!r} cannot be", problem)
    return tuple(root.table.measure.items())


# --- mistakes --------------------------------------------------------------------------------------


def _mistakes(sources: list[Source]) -> tuple[Mistake, ...]:
    """The notes of all files with their positions: by file, then in the order of the text."""
    found: list[Mistake] = []
    for source in sources:
        found += source.parse_mistakes
        if source.notes.noted:
            found += _located(source)
    return tuple(found)


def _located(source: Source) -> list[Mistake]:
    offsets = positions.scan(source.text)
    starts = positions.line_starts(source.text)
    shown = _shown(source.file)
    located: list[Mistake] = []
    for index, note in enumerate(dict.fromkeys(source.notes.noted)):
        line, column = positions.line_and_column(starts, positions.locate(offsets, note.path))
        fix = _fix(note, suggest=index < MAX_SUGGESTED)
        located.append(Mistake(shown, line, column, key_text(note.path), note.what, fix))
    return sorted(located, key=lambda mistake: (mistake.line, mistake.column))


def _fix(note: Note, *, suggest: bool) -> str:
    if not note.word:
        return note.fix
    known = [name for name in note.known if name][:2_000]
    if suggest:
        import difflib

        near = difflib.get_close_matches(note.word[:200], known, n=1, cutoff=0.6)
        if near:
            return f"did you mean `{near[0]}`?"
    if not known:
        return "none is declared"
    return f"write one of {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"


def key_text(path: positions.KeyPath) -> str:
    """``family.dot_f32.row[0].suffix``; keys that are not bare are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", part) is not None
        word = part if bare else ascii(part[:100])
        text += f".{word}" if text else word
    return text or "tune.toml"


def _shown(file: Path) -> str:
    """A file as messages name it: relative to the working folder when it lies in it."""
    try:
        return str(file.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)
