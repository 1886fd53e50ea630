"""Modules, scopes and apps of the joined projects: who answers for families, and what is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tunebuild import files, prototype
from tunebuild.flags import check_flags
from tunebuild.model import App, Confirm, Family, Module, Policy, Project, Scope
from tunebuild.positions import KeyPath
from tunebuild.records import Notes
from tunebuild.tables import AppTable, ConfirmTable, RootTable, ScopeTable

NAME = re.compile(r"[A-Za-z_][\w-]{0,63}", re.ASCII)
_OWN_NOTES = frozenset(
    {
        "binary", "platform", "arch", "box", "written", "features", "features_known", "origin", "exchange_sha",
        "applied_box", "class", "noise", "mode", "engine_sha", "tunebuild_version", "protocol", "validation",
        "mint_total_ms", "seed",
    }
)  # fmt: skip
MAX_CONSTANT = 64
MAX_MARGIN = 1000
_IN_GENERATED_C = frozenset(
    {
        "app", "argc", "argv", "b", "copies", "count", "fn", "knob", "last", "r", "reps", "result", "row", "rows", "s",
        "set", "sets", "to",
    }
)  # fmt: skip
_OF_APP = (
    "_log_tune_status", "_tune_status", "_tune_scopes", "_tune_box", "_tune_check", "_tune_needs", "_tune_suppress",
    "_tune_artifact", "_tune_interface", "_tune_guard",
)  # fmt: skip
_C_HEADERS = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic"
    " stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype"
)
_SYSTEM_HEADERS = (  # what those include, and what programs do
    "alloca cpuid dlfcn endian fcntl features getopt malloc omp poll pthread pwd regex sched semaphore spawn strings"
    " syslog termios ucontext unistd utime wait xlocale"
)
_HEADERS = frozenset((*_C_HEADERS.split(), *_SYSTEM_HEADERS.split()))
_SHADOWING = re.compile(r"tunebuild|tb_\w+|\w*intrin|arm_\w+|std\w+_def")
_RESOLVER = re.compile(r"exchange:\S+|entry:[A-Za-z_][\w.-]*|[^:]+\.py:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Joined:
    """One project among those that are joined; the root's comes first."""

    project: Project
    table: RootTable
    notes: Notes


def check_name(name: str, path: KeyPath, notes: Notes) -> None:
    """Names of projects, modules, scopes, apps, toolchains, instruction sets and flag sets."""
    if not NAME.fullmatch(name):
        notes.add(
            path, f"{name[:100]!r} is no name", "write letters, digits, _ and -, at most 64, no digit first"
        )


# --- modules ---------------------------------------------------------------------------------------


def modules(joined: tuple[Joined, ...]) -> tuple[Module, ...]:
    """Every module that a table or a family names, each of one project alone."""
    owners: dict[str, Joined] = {}
    made: dict[str, Module] = {}
    for one in joined:
        named: dict[str, KeyPath] = {name: ("module", name) for name in one.table.module}
        for family, table in one.table.family.items():
            module = table.module or one.project.name
            named.setdefault(module, ("family", family, "module") if table.module else ("project", "name"))
        for name, path in named.items():
            check_name(name, path, one.notes)
            owner = owners.setdefault(name, one)
            if owner is not one:
                what = f"the module `{name}` belongs to the project `{owner.project.name}` already"
                one.notes.add(path, what, "rename one of them: module names are global")
                continue
            declared = one.table.module.get(name)
            constants = declared.constants if declared else {}
            _check_constants(name, constants, joined, one.notes)
            if constants:
                _check_header(name, made.values(), path, one.notes)
            made[name] = Module(name, tuple(constants.items()))
    return tuple(made.values())


def _check_constants(module: str, constants: Iterable[str], joined: tuple[Joined, ...], notes: Notes) -> None:
    """A constant is a macro in the C of every family of its module, and in each app's header."""
    words: dict[str, str] = {}
    for name in constants:
        path = ("module", module, "constants", name)
        try:
            prototype.check_name(name)
        except prototype.PrototypeError as error:
            notes.add(path, error.what, error.fix or "write letters, digits and _")
            continue
        if len(name) > MAX_CONSTANT:
            notes.add(path, f"{len(name)} letters", f"write at most {MAX_CONSTANT}")
        words = words or _prototype_words(joined)
        if name in words:
            what = f"`{name}` is a word of the prototype of `{words[name]}`, which a macro would change"
            notes.add(path, what, "choose another name")
        elif name in _IN_GENERATED_C:
            notes.add(
                path, f"`{name}` is a word of generated C, which a macro would change", "choose another"
            )


def _prototype_words(joined: tuple[Joined, ...]) -> dict[str, str]:
    """Every word of every prototype, with the function that it stands in."""
    declared: dict[str, str] = {}
    for one in joined:
        for name, table in one.table.family.items():
            declared[name] = table.prototype
            declared |= {other: companion.prototype for other, companion in table.companion.items()}
    return {word: name for name, text in declared.items() for word in re.findall(r"\w+", text)}


def _check_header(name: str, others: Iterable[Module], path: KeyPath, notes: Notes) -> None:
    """Modules with constants have a header each, named after them with _ for -."""
    for other in others:
        if other.constants and other.name.replace("-", "_") == name.replace("-", "_"):
            what = f"`{name}` and `{other.name}` are the same name in C, and their constants one header"
            notes.add(path, what, "rename one of them")


# --- scopes ----------------------------------------------------------------------------------------


def scopes(
    joined: tuple[Joined, ...], modules: tuple[Module, ...], families: tuple[Family, ...]
) -> tuple[Scope, ...]:
    """All scopes in file order, the root's first. A module in two belongs to the first.

    A root without any scope gets one, named after the project, for the modules that no other scope holds.
    """
    by_name = {module.name: module for module in modules}
    taken: set[str] = set()
    made: dict[str, Scope] = {}
    declaring: dict[str, str] = {}
    pins: dict[str, Scope] = {}  # by version key: all scopes share one sidecar
    for one in joined:
        for name, table in one.table.scope.items():
            scope = _scope(name, table, one, by_name)
            path = ("scope", name)
            if name in made:
                one.notes.add(path, f"two projects have a scope `{name}`", "rename one: names are global")
                continue
            first = declaring.setdefault(scope.module, name)
            if first != name:
                what = f"the module `{scope.module}` declares the scope `{first}` already"
                one.notes.add((*path, "module"), what, "a module declares one scope: name another module")
            pinned = pins.setdefault(scope.version_key, scope) if scope.version_key else scope
            if pinned.version != scope.version:
                what = f"the scope `{pinned.name}` records another version under `{scope.version_key}`"
                fix = f'write version_key = "{name}_version"'
                one.notes.add((*path, "version_key" if table.version_key else "version_of"), what, fix)
            own = [module for module in (scope.module, *scope.covers) if module not in taken]
            taken.update(own)
            made[name] = _with_families(scope, own, families)
    root = joined[0]
    if root.table.scope:
        return tuple(made.values())
    name = root.project.name
    if name in made:
        root.notes.add(
            ("use",), f"a joined project has a scope `{name}`, this project's name", "declare [scope]"
        )
    left = [module.name for module in modules if module.name not in taken]
    implicit = Scope(
        name, name, tuple(m for m in left if m != name), (), root=root.project.root, implicit=True
    )
    return (_with_families(implicit, left, families), *made.values())


def _with_families(scope: Scope, own: Iterable[str], families: tuple[Family, ...]) -> Scope:
    wanted = frozenset(own)
    return replace(scope, families=tuple(family.name for family in families if family.module in wanted))


def _scope(name: str, table: ScopeTable, one: Joined, modules: Mapping[str, Module]) -> Scope:
    path, notes, root = ("scope", name), one.notes, one.project.root
    check_name(name, path, notes)
    module = table.module or one.project.name
    if module not in modules:
        where: KeyPath = (*path, "module") if table.module else path
        notes.unknown(where, f"no module is named `{module}`", module, modules)
    tuner = table.tuner
    if tuner not in ("builtin", "none"):
        file = files.inside(root, root, tuner, "file", (*path, "tuner"), notes)
        tuner = str(file) if file else "none"
    defaults = None
    if table.defaults:
        defaults = files.inside(root, root, table.defaults, "anything", (*path, "defaults"), notes)
    if table.resolver and not _RESOLVER.fullmatch(table.resolver):
        what = f"`{table.resolver}` is no resolver"
        notes.add((*path, "resolver"), what, "write exchange:URL, entry:NAME or file.py:function")
    elif table.resolver and not table.resolver.startswith(("exchange:", "entry:")):
        file_text = table.resolver.rpartition(":")[0]
        files.inside(root, root, file_text, "file", (*path, "resolver"), notes)
    key, version = _version(table, path, notes, modules)
    covers = tuple(other for other in dict.fromkeys(table.covers) if other in modules and other != module)
    return Scope(name, module, covers, (), tuner, key, version, defaults, table.resolver, root)


def _version(
    table: ScopeTable, path: KeyPath, notes: Notes, modules: Mapping[str, Module]
) -> tuple[str, str]:
    """The pin's key and its expected value as text; both "" without a pin."""
    if not table.version_of:
        if table.version_key:
            notes.add(
                (*path, "version_key"), "a key without version_of", 'write version_of = "module/CONSTANT"'
            )
        return "", ""
    where = (*path, "version_of")
    module, slash, constant = table.version_of.partition("/")
    if not slash or not module or not constant or "/" in constant:
        notes.add(
            where, f"`{table.version_of}` is no module/CONSTANT", "write, such as, quant/KERNELS_VERSION"
        )
        return "", ""
    if module not in modules:
        notes.unknown(where, f"no module is named `{module}`", module, modules)
        return "", ""
    constants = dict(modules[module].constants)
    if constant not in constants:
        notes.unknown(where, f"the module `{module}` has no constant `{constant}`", constant, constants)
        return "", ""
    key = table.version_key or constant.lower()
    if not re.fullmatch(r"[a-z0-9_.-]{1,64}", key):
        notes.add((*path, "version_key"), f"`{key}` is no key", "write lower-case letters, digits, _ . and -")
    elif key in _OWN_NOTES or key.startswith(("noise_", "validation_")):
        what = f"`{key}` is a note that every sidecar keeps of its own"
        notes.add((*path, "version_key"), what, f'write version_key = "{path[-1]}_version"')
    return key, str(constants[constant])


# --- apps ------------------------------------------------------------------------------------------


def apps(
    joined: tuple[Joined, ...], scopes: tuple[Scope, ...], modules: tuple[Module, ...]
) -> tuple[App, ...]:
    """The default app first: the library of all families, unless the file declares its name."""
    root = joined[0]
    name = root.project.name
    declared = {other: _app(other, table, root, scopes) for other, table in root.table.app.items()}
    every = tuple(scope.name for scope in scopes)
    default = declared.pop(name, None) or App(name, "library", every, root=root.project.root)
    made = (default, *declared.values())
    _check_symbols(made, root.notes)
    for app in made:
        path: KeyPath = ("app", app.name) if app.name in root.table.app else ("project", "name")
        _check_app_header(app, modules, path, root.notes)
    _check_functions(made, joined)
    return tuple(_shared(app, made, root.notes) for app in made)


def _app(name: str, table: AppTable, root: Joined, scopes: tuple[Scope, ...]) -> App:
    path, notes, folder = ("app", name), root.notes, root.project.root
    check_name(name, path, notes)
    sources = [
        files.inside(folder, folder, text, "file", (*path, "sources", index), notes)
        for index, text in enumerate(table.sources)
    ]
    for index, source in enumerate(sources):
        if source is not None and source in sources[:index]:
            what = f"`{table.sources[index]}` stands here twice"
            notes.add((*path, "sources", index), what, "remove one of them: a source is compiled once")
    include = [
        files.inside(folder, folder, text, "folder", (*path, "include", index), notes)
        for index, text in enumerate(table.include)
    ]
    told = notes.within((*path, "sources")) or notes.within((*path, "kind"))
    if table.kind == "exe" and not table.sources and not told:
        notes.add(path, "an executable without sources", 'write sources = ["main.c"], or kind = "shared"')
    check_flags(table.cflags, (*path, "cflags"), notes)
    check_flags(table.libs, (*path, "libs"), notes)
    known = [scope.name for scope in scopes]
    for index, scope in enumerate(table.scopes):
        if scope not in known:
            notes.unknown((*path, "scopes", index), f"no scope is named `{scope}`", scope, known)
    return App(
        name=name,
        kind=table.kind,
        scopes=tuple(scope for scope in known if scope in table.scopes) if table.scopes else tuple(known),
        sources=tuple(filter(None, sources)),
        cflags=table.cflags,
        libs=table.libs,
        include=tuple(filter(None, include)),
        policy=_policy(table, (*path, "policy"), notes),
        guard=table.guard,
        sidecar=table.sidecar,
        confirm=_confirm(table.confirm, (*path, "confirm"), notes) if table.confirm else None,
        root=folder,
    )


def _policy(table: AppTable, path: KeyPath, notes: Notes) -> Policy | None:
    if table.policy is not None and table.kind != "exe":
        notes.add(path, f"a {table.kind} app has no policy", "remove it: policy acts on exe apps")
    if table.policy is None and table.kind == "exe":
        levels = [flag for flag in table.cflags if flag.startswith("-O")]
        if levels[-1:] == ["-O0"]:
            return "fallback"
    return table.policy


def _confirm(table: ConfirmTable, path: KeyPath, notes: Notes) -> Confirm:
    command = tuple(table.command.split()) if isinstance(table.command, str) else table.command
    if not command:
        notes.add((*path, "command"), "an empty command", "write what to run")
    try:
        groups = re.compile(table.metric).groups
    except re.error as error:
        notes.add((*path, "metric"), f"`{table.metric}` is no regular expression: {error}")
    else:
        if groups != 1:
            what = f"`{table.metric}` has {groups} groups"
            notes.add((*path, "metric"), what, r"write one group around the number, such as ([0-9.]+) ms")
    if not 0 <= table.margin <= MAX_MARGIN:
        what, fix = f"a margin of {table.margin:g}", f"write percent, from 0 to {MAX_MARGIN}"
        notes.add((*path, "margin"), what, fix)
        return Confirm(command, table.metric, table.better, 0.0)
    return Confirm(command, table.metric, table.better, float(table.margin))


def _check_symbols(made: tuple[App, ...], notes: Notes) -> None:
    """An app's C functions carry its name with _ for -."""
    seen: dict[str, str] = {}
    for app in made:
        first = seen.setdefault(app.name.replace("-", "_"), app.name)
        if first != app.name:
            what = f"`{app.name}` and `{first}` are the same name in C"
            notes.add(("app", app.name), what, "rename one of them")


def shadows(stem: str) -> bool:
    """Whether a header STEM.h would stand before one that C, the system or the runtime has."""
    return stem in _HEADERS or _SHADOWING.fullmatch(stem) is not None


def _check_app_header(app: App, modules: tuple[Module, ...], path: KeyPath, notes: Notes) -> None:
    """Each app has a header of its name, in a folder that every compile looks into first."""
    stem = app.name.replace("-", "_")
    constants = {f"{one.name.replace('-', '_')}_constants": one.name for one in modules if one.constants}
    if stem in constants:
        what = f"the header {stem}.h is that of the constants of module `{constants[stem]}`"
        notes.add(path, what, "choose another name")
    elif shadows(stem):
        whose = (
            "tunebuild's own" if stem == "tunebuild" or stem.startswith("tb_") else "one of C or the system"
        )
        notes.add(path, f"its header {stem}.h would stand before {whose}", "choose another name")


def _check_functions(made: tuple[App, ...], joined: tuple[Joined, ...]) -> None:
    """No family or companion may have the name of a function or a folder that an app brings."""
    stems = {app.name.replace("-", "_"): app.name for app in made}
    for one in joined:
        declared: list[tuple[str, KeyPath]] = []
        for family, table in one.table.family.items():
            declared.append((family, ("family", family)))
            declared += [(other, ("family", family, "companion", other)) for other in table.companion]
        for name, path in declared:
            owners = {name.removesuffix(ending) for ending in _OF_APP if name.endswith(ending)} & stems.keys()
            if owners:
                what = f"`{name}` is a function that every build of the app `{stems[owners.pop()]}` has"
                one.notes.add(path, what, "choose another name")
            elif len(path) == 2 and name.startswith("app_") and name.removeprefix("app_") in stems:
                what = f"the objects of the app `{stems[name.removeprefix('app_')]}` lie in the folder {name}"
                one.notes.add(path, what, "choose another name")


def _shared(app: App, made: tuple[App, ...], notes: Notes) -> App:
    """Follow `sidecar` to the app that owns the winners."""
    if not app.sidecar:
        return app
    by_name = {other.name: other for other in made}
    path = ("app", app.name, "sidecar")
    if app.sidecar not in by_name:
        notes.unknown(path, f"no app is named `{app.sidecar}`", app.sidecar, by_name)
        return app
    owner, seen = app, {app.name}
    while owner.sidecar in by_name:
        owner = by_name[owner.sidecar]
        if owner.name in seen:
            notes.add(path, "apps that share each other's sidecar", "let one of them own it")
            return app
        seen.add(owner.name)
    return replace(app, sidecar=owner.name)
