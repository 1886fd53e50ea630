"""A strict reader of C prototypes: what a family's `prototype` may say, and nothing else.

Types: pointers to and scalars of the element types below, ``void *``, and pointers to named types.
No arrays, function pointers, variadic or unnamed parameters: each is an error with what to write.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tunebuild.errors import UsageError
from tunebuild.model import Function, Parameter

# One table of C scalars: the base type's words, sorted, and the element type of a buffer of them.
ELEMENTS: dict[str, str] = {
    "float": "f32", "double": "f64", "_Float16": "f16", "__bf16": "bf16", "__fp16": "f16",
    "int8_t": "i8", "int16_t": "i16", "int32_t": "i32", "int64_t": "i64",
    "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64",
    "size_t": "u64", "ptrdiff_t": "i64", "intptr_t": "i64", "uintptr_t": "u64",
    "char": "i8", "bool": "u8", "_Bool": "u8",
    "char signed": "i8", "char unsigned": "u8", "short": "i16", "int short": "i16",
    "short unsigned": "u16", "int short unsigned": "u16", "int": "i32", "signed": "i32", "int signed": "i32",
    "unsigned": "u32", "int unsigned": "u32", "long": "i64", "int long": "i64", "long unsigned": "u64",
    "int long unsigned": "u64", "long long": "i64", "int long long": "i64", "long long unsigned": "u64",
    "int long long unsigned": "u64",
}  # fmt: skip

_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile"
    " while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert"
    " _Thread_local"
)
KEYWORDS = frozenset(_KEYWORDS.split())
_QUALIFIERS = frozenset({"const", "volatile", "restrict", "__restrict", "__restrict__"})
_BASE_WORDS = frozenset(word for words in ELEMENTS for word in words.split()) | {"void"}
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\.\.\.|[()\[\],*]|\d+)", re.ASCII)
# What the headers of every generated file, or a compiler in its usual mode, mean by a name.
_OF_HEADERS = (
    "NULL EOF FILE offsetof stdin stdout stderr errno assert va_list max_align_t wchar_t ssize_t true false nullptr asm"
    " typeof alignas alignof constexpr static_assert thread_local typeof_unqual linux unix i386"
)
RESERVED = KEYWORDS | _BASE_WORDS | frozenset(_OF_HEADERS.split())
_LIMIT = re.compile(
    r"(?:U?INT(?:_LEAST|_FAST)?\d*|U?INTPTR|U?INTMAX|SIZE|PTRDIFF|WCHAR|SIG_ATOMIC)_(?:MIN|MAX|C)|u?int(?:_least|_fast|max)\d*_t"
)
MAX_LENGTH = 4_000


class PrototypeError(UsageError):
    """A text that is no prototype; ``column`` counts from 1."""

    def __init__(self, what: str, column: int, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.column = column


@lru_cache(maxsize=1024)
def parse(text: str) -> Function:
    """``float dot(const float *a, size_t n)`` to a `Function`; raises `PrototypeError`."""
    if len(text) > MAX_LENGTH:
        raise PrototypeError(f"a prototype of {len(text)} characters; at most {MAX_LENGTH}", 1)
    text = " ".join(text.split()).removesuffix(";").rstrip()
    tokens = _tokens(text)
    opening = next((i for i, (token, _) in enumerate(tokens) if token == "("), -1)
    if opening < 0:
        raise PrototypeError("no parameter list", len(text) or 1, "write TYPE NAME(PARAMETERS)")
    head, inside = tokens[:opening], tokens[opening + 1 : -1]
    if tokens[-1][0] != ")":
        token, column = tokens[-1]
        raise PrototypeError(f"`{token}` where the prototype should end with `)`", column)
    returns, name = _head(head, tokens[opening][1])
    return Function(name, text, returns, _parameters(inside, tokens[-1][1]))


@lru_cache(maxsize=1024)
def element(ctype: str) -> str:
    """The element type of a scalar, or of what a pointer points to; "" for void, pointers and named types."""
    words = [word for word in re.findall(r"\w+|\*", ctype, re.ASCII) if word not in _QUALIFIERS]
    if words[-1:] == ["*"]:
        words.pop()
    return ELEMENTS.get(" ".join(sorted(words)), "")


def is_integer(ctype: str) -> bool:
    """Is this the type of an integer scalar?"""
    return "*" not in ctype and element(ctype)[:1] in ("i", "u")


def _tokens(text: str) -> list[tuple[str, int]]:
    tokens: list[tuple[str, int]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            column = len(text) - len(text[position:].lstrip()) + 1
            raise PrototypeError(f"{text[column - 1]!a} is not C here", column, "write TYPE NAME(PARAMETERS)")
        tokens.append((match.group(1), match.start(1) + 1))
        position = match.end()
    return tokens


def _head(tokens: list[tuple[str, int]], opening: int) -> tuple[str, str]:
    """The return type and the name, from what stands before the parameter list."""
    if not tokens:
        raise PrototypeError("no function name", opening, "write TYPE NAME(PARAMETERS)")
    name, column = tokens[-1]
    check_name(name, column)
    words = [token for token, _ in tokens[:-1]]
    if not words:
        fix = f"write `void {name}(...)` or its real type"
        raise PrototypeError(f"`{name}` has no return type", column, fix)
    if words[0] in ("static", "inline", "extern", "register", "typedef", "auto"):
        raise PrototypeError(f"`{words[0]}` does not belong here", tokens[0][1], "give the plain prototype")
    if "*" in words:
        raise PrototypeError("a function that returns a pointer cannot be compared", column, "return a value")
    returns = " ".join(word for word in words if word not in _QUALIFIERS)
    if returns != "void" and not element(returns):
        raise PrototypeError(f"`{returns}` is no type that a result can have", tokens[0][1], _types())
    return returns, name


def _types() -> str:
    return "types: void, float, double, _Float16, int8_t to uint64_t, size_t, int, unsigned, long, char, bool"


def _parameters(tokens: list[tuple[str, int]], end: int) -> tuple[Parameter, ...]:
    if [token for token, _ in tokens] == ["void"]:
        return ()
    if not tokens:
        raise PrototypeError("an empty parameter list", end, "write (void) for a function without parameters")
    parameters: list[Parameter] = []
    part: list[tuple[str, int]] = []
    for token, column in [*tokens, (",", end)]:
        if token != ",":
            part.append((token, column))
            continue
        parameter = _parameter(part, column)
        if any(parameter.name == other.name for other in parameters):
            raise PrototypeError(f"two parameters are named `{parameter.name}`", part[-1][1])
        parameters.append(parameter)
        part = []
    return tuple(parameters)


def _parameter(tokens: list[tuple[str, int]], end: int) -> Parameter:
    if not tokens:
        raise PrototypeError("an empty parameter", end)
    for token, column in tokens:
        if token in ("[", "]"):
            raise PrototypeError("an array parameter", column, "write a pointer: `const float *x`")
        if token in ("(", ")"):
            raise PrototypeError("a function pointer, or parentheses that do not match", column)
        if token == "...":
            raise PrototypeError("a variadic function cannot be tuned", column)
    name, column = tokens[-1]
    words = [token for token, _ in tokens[:-1]]
    if name == "*" or name in _QUALIFIERS or (not words) or name in _BASE_WORDS:
        raise PrototypeError(f"`{_join([t for t, _ in tokens])}` is a parameter without type or name", column)
    check_name(name, column)
    stars = words.count("*")
    base = words[: words.index("*")] if stars else words
    core = [word for word in base if word not in _QUALIFIERS]
    _check_base(core, stars, tokens[0][1])
    if any(word not in _QUALIFIERS and word != "*" for word in words[len(base) :]):
        raise PrototypeError(f"`{_join(words)}` is no type", tokens[0][1])
    if stars > 2:
        raise PrototypeError("more than two levels of pointers", column)
    return Parameter(name, _join(words), stars > 0, "const" in base)


def _check_base(core: list[str], stars: int, column: int) -> None:
    text = " ".join(core)
    if " ".join(sorted(core)) in ELEMENTS or (text == "void" and stars):
        return
    if text == "void" or not core:
        raise PrototypeError("a parameter of type void" if core else "a parameter without a type", column)
    named = core[1:] if core[0] == "struct" else core
    is_named = len(named) == 1 and named[0] not in KEYWORDS | _BASE_WORDS
    if not is_named:
        raise PrototypeError(f"`{text}` is no type", column, _types())
    if not stars:
        raise PrototypeError(f"a `{text}` passed by value cannot be built", column, f"pass `const {text} *`")


def _join(words: list[str]) -> str:
    """``const float *restrict``: no blank follows a star."""
    return " ".join(words).replace("* ", "*")


def check_name(name: str, column: int = 1) -> None:
    """Raise `PrototypeError` unless ``name`` may name a function or a parameter here."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in KEYWORDS:
        raise PrototypeError(f"`{name}` is no C name", column)
    if name in RESERVED or _LIMIT.fullmatch(name):
        raise PrototypeError(f"`{name}` means something else in C", column, "choose another name")
    if name.startswith("tb_"):
        raise PrototypeError(f"`{name}`: the prefix `tb_` is reserved", column, "choose another name")
