"""Python's door: a built artifact as an object whose functions take numpy arrays.

    library = tunebuild.consumer.load("tunekit")       # an app of the project here, or a library's path
    library.dot_f32(a, b, len(a))
    library.status()                                   # what each seat runs, on whose measurement

The library says itself which functions it exports, so its file is all that is needed. The cffi module for
its prototypes is generated once and kept in the artifact cache: parsing them costs 31 ms and more, the
generated module 2.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunebuild import cache, codegen, keys, prototype
from tunebuild.errors import UsageError, WorkFailed
from tunebuild.model import Function, Parameter

MODULE_VERSION = "1"
_STATUS = """
typedef uint16_t tb_f16;
typedef uint16_t tb_bf16;
typedef void (*tb_fn)(void);
typedef struct tb_variant { const char *suffix; tb_fn fn; } tb_variant;
typedef struct { const char *family, *scope, *suffix, *source, *path; } tb_tune_row;
typedef struct { const char *scope, *reason, *detail, *covered; int answerable; } tb_tune_scope;
const tb_tune_row *NAME_tune_status(size_t *count);
const tb_tune_scope *NAME_tune_scopes(size_t *count);
const char *NAME_tune_box(void);
const char *NAME_tune_needs(void);
int NAME_tune_check(void);
"""
_ARRAYS = {  # numpy's `dtype.str` by element type: reading it is free, a dtype's name costs 10 us
    "f16": ("<f2", "<u2"), "bf16": ("<u2",), "f32": ("<f4",), "f64": ("<f8",),
    "i8": ("|i1",), "i16": ("<i2",), "i32": ("<i4",), "i64": ("<i8",),
    "u8": ("|u1", "|b1"), "u16": ("<u2",), "u32": ("<u4",), "u64": ("<u8",),
}  # fmt: skip
_HALF = {"tb_f16": "f16", "tb_bf16": "bf16"}


class TuneWarning(UserWarning):
    """A library was loaded whose stamps are not this box's own winners."""


@dataclass(frozen=True, slots=True)
class TuneRow:
    """What one seat runs. ``suffix`` is "" for the reference body."""

    family: str
    scope: str
    suffix: str
    source: str
    path: str


@dataclass(frozen=True, slots=True)
class TuneScope:
    """How one scope stood when the library was stamped; ``covered``: by which profile, in words."""

    scope: str
    reason: str
    detail: str
    covered: str

    @property
    def answered(self) -> bool:
        return self.reason == "none" or bool(self.covered)


class TunedFunction:
    """One function of a library. Arrays are checked, not converted: a copy would hide a cost.

    A pointer takes a C-contiguous numpy array of its element type, any buffer where the element is ``void``,
    a cffi pointer, or None. 16-bit floats: float16 arrays, or the bits as uint16.
    """

    def __init__(self, ffi: Any, call: Callable[..., Any], function: Function) -> None:
        self._call = call
        self._convert = tuple(_converter(ffi, parameter) for parameter in function.parameters)
        self.__name__ = function.name
        self.__doc__ = function.text
        self.prototype = function.text

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != len(self._convert):
            raise TypeError(f"{self.prototype} takes {len(self._convert)} arguments, not {len(arguments)}")
        return self._call(*[convert(value) for convert, value in zip(self._convert, arguments, strict=True)])

    def __repr__(self) -> str:
        return f"<{self.prototype}>"


class Library:
    """A loaded artifact; its functions are attributes, and items by name."""

    def __init__(self, path: Path, app: str, ffi: Any, lib: Any, functions: dict[str, TunedFunction]) -> None:
        self.path = path
        self.app = app
        self.functions = functions
        self._ffi, self._lib = ffi, lib
        self._prefix = codegen.identifier(app)

    def __getattr__(self, name: str) -> TunedFunction:
        try:
            return self.__dict__["functions"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{self.path.name} has no function {name}") from None

    def __getitem__(self, name: str) -> TunedFunction:
        return self.functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]

    def status(self) -> tuple[TuneRow, ...]:
        """A row for every seat, as stamped."""
        rows = self._table("tune_status")
        return tuple(TuneRow(*map(self._text, (r.family, r.scope, r.suffix, r.source, r.path))) for r in rows)

    def scopes(self) -> tuple[TuneScope, ...]:
        """Each scope as it stood when the library was stamped."""
        rows = self._table("tune_scopes")
        return tuple(TuneScope(*map(self._text, (r.scope, r.reason, r.detail, r.covered))) for r in rows)

    def variants(self, name: str) -> tuple[str, ...]:
        """The rows that the library holds of one function."""
        return tuple(self._text(row.suffix) for row in self._table("variants", name))

    @property
    def box(self) -> str:
        """Whose stamps these are; "" for a frozen library."""
        return self._text(getattr(self._lib, f"{self._prefix}_tune_box")())

    def _table(self, name: str, prefix: str = "") -> list[Any]:
        count = self._ffi.new("size_t *")
        rows = getattr(self._lib, f"{prefix or self._prefix}_{name}")(count)
        return [rows[i] for i in range(count[0])]

    def _text(self, text: Any) -> str:
        return bytes(self._ffi.string(text)).decode("utf-8", "surrogateescape")


# --- loading -------------------------------------------------------------------------------------


def load(library: str | Path, *, tune: bool = False, root: str | Path = ".") -> Library:
    """Load a shared library by path, or an app of the project at ``root`` by name.

    Warns (`TuneWarning`) of each scope that is untuned here. ``tune=True`` mints what is untuned first; that
    takes a project.

    :raises ImportError: when the stamps need features that this CPU lacks, or the file is no such library.
    :raises UsageError: when the app is unknown, makes no shared library, or was not built.
    """
    path = Path(library)
    named = path.suffix == "" and path.parent == Path()
    if named:
        path = _built_library(str(library), Path(root), tune)
    elif tune:
        raise UsageError("only an app of a project can be tuned", fix="load it by its app's name")
    loaded = _open(path.absolute())
    for line in _untuned(loaded):
        warnings.warn(line, TuneWarning, stacklevel=2)
    return loaded


def _built_library(name: str, root: Path, tune: bool) -> Path:
    from tunebuild import manifest, memo

    found = manifest.read(Path(memo.find_root(str(root))))
    app = next((app for app in found.apps if app.name == name), None)
    if app is None:
        known = ", ".join(app.name for app in found.apps)
        raise UsageError(f"there is no app {name}", fix=f"this project has: {known}")
    if app.kind not in ("shared", "library"):
        raise UsageError(
            f"app {name} is an {app.kind}, not a shared library", fix=f"load {found.project.name}"
        )
    if tune:
        _tune(found.project.root, name)
    path = found.project.root / f"build/normal/lib{name}.so"
    if not path.exists():
        raise UsageError(f"{path.name} is not built", fix="run `tunebuild build`")
    return path


def _tune(root: Path, app: str) -> None:
    """Mint what is untuned, in a process of its own: a tuner's environment and core are not ours."""
    import os
    import subprocess
    import sys

    from tunebuild import children

    command = [*children.TOOL, "-C", str(root), "run", app, f"--prepare={os.getpid()}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    if done.returncode:
        raise WorkFailed(
            f"tuning {app} failed with exit code {done.returncode}", fix=f"run `tunebuild mint --app {app}`"
        )


def _open(path: Path) -> Library:
    app = path.name.removeprefix("lib").partition(".so")[0]
    prefix = codegen.identifier(app)
    prototypes = _interface(path, prefix)
    functions = [prototype.parse(text) for text in prototypes]
    registries = [f"const tb_variant *{function.name}_variants(size_t *count)" for function in functions]
    declared = [*prototypes, *registries]
    cdef = _STATUS.replace("NAME", prefix) + "".join(f"{text};\n" for text in declared)
    ffi = _ffi(cdef)
    lib = ffi.dlopen(str(path))
    if getattr(lib, f"{prefix}_tune_check")():
        words = ffi.string(getattr(lib, f"{prefix}_tune_needs")()).decode()
        raise ImportError(f"{path.name} needs {words}, which this CPU lacks: build it here", path=str(path))
    made = {f.name: TunedFunction(ffi, getattr(lib, f.name), f) for f in functions}
    return Library(path, app, ffi, lib, made)


def _interface(path: Path, prefix: str) -> tuple[str, ...]:
    """The plain prototypes of what a library exports, which it holds itself."""
    try:
        ask = getattr(ctypes.CDLL(str(path)), f"{prefix}_tune_interface")
    except OSError as error:
        raise ImportError(str(error), path=str(path)) from error
    except AttributeError:
        raise ImportError(
            f"{path} is no library that tunebuild made, or was renamed", path=str(path)
        ) from None
    ask.restype = ctypes.POINTER(ctypes.c_char_p)
    texts: list[str] = []
    for text in ask():
        if text is None:
            break
        texts.append(text.decode())
    return tuple(texts)


def _ffi(cdef: str) -> Any:
    """A cffi interface to these declarations, from the cache or made now."""
    import cffi  # type: ignore[import-untyped]

    key = keys.digest(f"cffi {MODULE_VERSION} {cffi.__version__}\n{cdef}".encode())
    store = cache.store()
    entry = cache.lookup(store, key, Path("/"))
    text = entry.files[0].data.decode() if entry else _module_text(cdef)
    if entry is None:
        cache.publish(store, key, [cache.File("module.py", text.encode())], root=Path("/"))
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<cffi module {key[:12]}>", "exec"), namespace)
    return namespace["ffi"]


def _module_text(cdef: str) -> str:
    import contextlib
    import io
    import tempfile

    import cffi

    with tempfile.TemporaryDirectory(prefix="tunebuild-") as folder:
        maker = cffi.FFI()
        maker.cdef(cdef)
        maker.set_source("tb_module", None)
        target = Path(folder) / "tb_module.py"
        with contextlib.redirect_stdout(io.StringIO()):  # it reports that it writes
            maker.emit_python_code(str(target))
        return target.read_text()


def _untuned(library: Library) -> tuple[str, ...]:
    from tunebuild import host

    here = host.match_key(host.box({}).identity)
    if library.box and library.box != here:
        return (f"{library.path.name} was stamped on {library.box}, this is {here}",)
    return tuple(
        f"{library.path.name}: scope {scope.scope} is untuned for this box: {scope.reason} ({scope.detail})"
        for scope in library.scopes()
        if not scope.answered
    )


# --- arguments -----------------------------------------------------------------------------------

Convert = Callable[[Any], Any]


def _converter(ffi: Any, parameter: Parameter) -> Convert:
    return _pointer(ffi, parameter) if parameter.pointer else _scalar


def _scalar(value: Any) -> Any:
    """numpy's scalars as Python's: cffi takes no others."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _pointer(ffi: Any, parameter: Parameter) -> Convert:
    """A checked view of an array. The C type is looked up once: parsing it costs more than the call."""
    words = [word for word in parameter.ctype.replace("*", " ").split() if word != "const"]
    element = _HALF.get(words[0]) or prototype.element(parameter.ctype)
    codes = _ARRAYS.get(element, ())
    view = ffi.typeof(f"{' '.join(words)}[]" if codes else "char[]")
    is_written, from_buffer = not parameter.const, ffi.from_buffer

    def convert(value: Any) -> Any:
        dtype = getattr(value, "dtype", None)
        if dtype is None:
            return _no_array(ffi, view, parameter, element, value)
        if codes and dtype.str not in codes:
            raise TypeError(f"{parameter.name}: an array of {element} is wanted, not of {dtype}")
        flags = value.flags
        if not flags.c_contiguous:
            raise ValueError(
                f"{parameter.name}: the array is not C-contiguous; pass numpy.ascontiguousarray(...)"
            )
        if is_written and not flags.writeable:
            raise ValueError(f"{parameter.name}: the function writes it, and the array is read-only")
        return from_buffer(view, value, is_written)

    return convert


def _no_array(ffi: Any, view: Any, parameter: Parameter, element: str, value: Any) -> Any:
    if value is None:
        return ffi.NULL
    if isinstance(value, ffi.CData):
        return value
    if element:
        raise TypeError(f"{parameter.name}: a numpy array of {element} is wanted, not {type(value).__name__}")
    return ffi.from_buffer(view, value, not parameter.const)
