"""The small language of tune.toml: ``where``, ``when``, ``work``, sizes, counts, ``domain``, ``valid``.

Arithmetic (``+ - * / // %``), comparison, ``and or not``, ``in`` a written list, ``min max ceil_div``.
Python's own parser reads the text; an allow-list then rebuilds it from checked operations, so that a
hostile file can neither reach a name it was not given nor make a number that does not fit 64 bits.

A word of the text may be a Python keyword (a C parameter named ``from``, the value ``return``): it is
respelt to an equally long name before parsing, and columns stay true.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import NoReturn

from tunebuild.errors import UsageError
from tunebuild.model import Value

MAX_LENGTH = 2_000
MAX_DEPTH = 120
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
FUNCTIONS = ("min", "max", "ceil_div")
_GRAMMAR = "arithmetic (+ - * / // %), comparison, and, or, not, in, min, max, ceil_div and parentheses"

# Python's keywords that are ordinary words here; the language's own (and or not in True False) stay.
_FOREIGN = (
    "None as assert async await break class continue def del elif else except finally for from global if"
    " import is lambda nonlocal pass raise return try while with yield"
)
_FOREIGN_WORDS = frozenset(_FOREIGN.split())
_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|[A-Za-z_]\w*", re.ASCII)


class ExpressionError(UsageError):
    """An expression that cannot be read or evaluated; ``column`` counts from 1, 0 is unknown."""

    def __init__(self, what: str, column: int = 0, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.column = column


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. ``free`` are the names it reads, in order of appearance."""

    text: str
    free: tuple[str, ...]
    tree: ast.expr = field(repr=False, compare=False)
    call: Callable[..., Value] = field(repr=False, compare=False)


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Read ``text``, or raise `ExpressionError` with the column of what is not of the language."""
    source = _source(text)
    tree = _parse(source)
    builder = _Builder()
    body = builder.build(tree, 0)
    return Expression(text, tuple(builder.free), tree, _callable(body, builder.free))


def names(expression: Expression) -> tuple[str, ...]:
    """The names an expression reads, in order of appearance."""
    return expression.free


def evaluate(expression: Expression, values: Mapping[str, Value]) -> Value:
    """The value of ``expression``; raises `ExpressionError` for a missing name, a division by zero, text in
    arithmetic, an order between text and numbers, or an integer past 64 bits."""
    try:
        arguments = [values[name] for name in expression.free]
    except KeyError as missing:
        raise ExpressionError(f"`{expression.text}` needs a value for `{missing.args[0]}`") from None
    return apply(expression, arguments)


def apply(expression: Expression, arguments: list[Value] | tuple[Value, ...]) -> Value:
    """As `evaluate`, the values given in the order of ``expression.free``."""
    try:
        return expression.call(*arguments)
    except (ZeroDivisionError, TypeError, OverflowError) as error:
        given = ", ".join(f"{n} = {v!r}" for n, v in zip(expression.free, arguments, strict=True))
        raise ExpressionError(f"`{expression.text}`: {_why(error)}{f' ({given})' if given else ''}") from None


def _why(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, TypeError) and "not supported between" in str(error):
        return "text and numbers have no order"
    return str(error)


# --- reading ---------------------------------------------------------------------------------------


def _source(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH}")
    if not text.strip():
        raise ExpressionError("an empty expression", 1)
    for column, char in enumerate(text, 1):
        if not (" " <= char <= "~" or char in "\n\t\r") or char == "\\":
            raise ExpressionError(f"the character {char!a} has no meaning here", column, f"use {_GRAMMAR}")
    return _WORD.sub(_respell, re.sub(r"\s", " ", text))


def _respell(match: re.Match[str]) -> str:
    word = match.group()
    return word.swapcase() if word in _FOREIGN_WORDS else word


def _spelling(name: str) -> str:
    return name.swapcase() if name.swapcase() in _FOREIGN_WORDS else name


def _parse(source: str) -> ast.expr:
    bare = source.lstrip()
    shift = len(source) - len(bare)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "5in (1, 2)" is only a warning to Python
            tree = ast.parse(bare, mode="eval").body
    except SyntaxError as error:
        column = min((error.offset or len(bare)) + shift, len(source))
        raise ExpressionError(f"`{source.strip()}` cannot be read", column, f"use {_GRAMMAR}") from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError("an expression nested too deeply", 1) from None
    if shift:
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                node.col_offset += shift
    return tree


# --- checking and rebuilding -----------------------------------------------------------------------


class _Builder:
    """Rebuilds an allow-listed tree from checked operations, collecting the names it meets."""

    def __init__(self) -> None:
        self.free: list[str] = []

    def build(self, node: ast.expr, depth: int) -> ast.expr:
        if depth > MAX_DEPTH:
            raise ExpressionError("an expression nested too deeply", node.col_offset + 1)
        match node:
            case ast.Constant():
                return _constant(node)
            case ast.Name():
                return self._name(node)
            case ast.BoolOp(op=op, values=values):
                return ast.BoolOp(op, [_truth(self.build(value, depth + 1)) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ast.UnaryOp(ast.Not(), self.build(operand, depth + 1))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _call("-1", [self.build(operand, depth + 1)])
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return _call("+1", [self.build(operand, depth + 1)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                operands = [self.build(left, depth + 1), self.build(right, depth + 1)]
                return _call(_OPERATIONS[type(op)], operands)
            case ast.Compare():
                return self._comparison(node, depth)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                if len(args) < 2 or (name == "ceil_div" and len(args) != 2):
                    raise ExpressionError(f"{name} takes two values", node.col_offset + 1)
                return _call(f"{name}()", [self.build(argument, depth + 1) for argument in args])
            case ast.Call():
                raise ExpressionError(
                    "only min, max and ceil_div can be called", node.col_offset + 1, f"use {_GRAMMAR}"
                )
            case ast.Tuple() | ast.List():
                raise ExpressionError("a list stands only right of `in`", node.col_offset + 1)
            case _:
                raise ExpressionError(
                    f"`{ast.unparse(node)}` is not of the language", node.col_offset + 1, f"use {_GRAMMAR}"
                )

    def _name(self, node: ast.Name) -> ast.expr:
        if node.id in ("true", "false"):
            return ast.Constant(node.id == "true")
        name = _spelling(node.id)
        if name not in self.free:
            self.free.append(name)
        return ast.Name(node.id, ast.Load())

    def _comparison(self, node: ast.Compare, depth: int) -> ast.expr:
        right: list[ast.expr] = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            match op:
                case ast.In() | ast.NotIn():
                    right.append(_members(operand))
                case ast.Is() | ast.IsNot():
                    raise ExpressionError("`is` is not of the language: write ==", node.col_offset + 1)
                case _:
                    right.append(self.build(operand, depth + 1))
        if len(node.ops) > 1 and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            raise ExpressionError("`in` cannot be chained", node.col_offset + 1)
        return ast.Compare(self.build(node.left, depth + 1), node.ops, right)


def _constant(node: ast.Constant) -> ast.expr:
    if not isinstance(node.value, bool | int | float | str):
        raise ExpressionError(f"{node.value!r} has no meaning here", node.col_offset + 1)
    if isinstance(node.value, int) and node.value > INT_MAX:
        raise ExpressionError("an integer past 64 bits", node.col_offset + 1)
    return ast.Constant(node.value)


def _members(node: ast.expr) -> ast.expr:
    """The written list right of ``in``; one value in parentheses is a list of one."""
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    constants: list[ast.expr] = []
    for element in elements:
        sign = 1
        if isinstance(element, ast.UnaryOp) and isinstance(element.op, ast.USub):
            sign, element = -1, element.operand
        if isinstance(element, ast.Name) and element.id in ("true", "false"):
            element = ast.Constant(element.id == "true", col_offset=element.col_offset)
        if not isinstance(element, ast.Constant):
            raise ExpressionError(
                "right of `in` stands a list of plain values, such as (1, 2)", element.col_offset + 1
            )
        _constant(element)
        if sign < 0 and isinstance(element.value, int | float):
            element = ast.Constant(-element.value)
        constants.append(ast.Constant(element.value))
    return ast.Tuple(constants, ast.Load())


def _truth(node: ast.expr) -> ast.expr:
    """``and`` and ``or`` give a truth value, as they do in C, never one of their operands."""
    return ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), node))


def _call(operation: str, arguments: list[ast.expr]) -> ast.expr:
    # The operation's name is no identifier, so no name of the text can shadow it.
    return ast.Call(ast.Name(operation, ast.Load()), arguments, [])


def _callable(body: ast.expr, free: list[str]) -> Callable[..., Value]:
    spelt = [ast.arg(_respelt(name)) for name in free]
    arguments = ast.arguments([], spelt, None, [], [], None, [])
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, body)))
    code: CodeType = compile(tree, "<tune.toml>", "eval")
    function: Callable[..., Value] = eval(code, dict(_ENVIRONMENT))
    return function


def _respelt(name: str) -> str:
    return name.swapcase() if name in _FOREIGN_WORDS else name


# --- the checked operations ------------------------------------------------------------------------

Number = int | float


def _number(value: Value) -> Number:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is text, not a number")
    return value


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise OverflowError("an integer past 64 bits")
    return value


def _add(a: Value, b: Value) -> Number:
    return _bounded(_number(a) + _number(b))


def _sub(a: Value, b: Value) -> Number:
    return _bounded(_number(a) - _number(b))


def _mul(a: Value, b: Value) -> Number:
    return _bounded(_number(a) * _number(b))


def _div(a: Value, b: Value) -> Number:
    return _number(a) / _number(b)


def _floordiv(a: Value, b: Value) -> Number:
    return _bounded(_number(a) // _number(b))


def _mod(a: Value, b: Value) -> Number:
    return _bounded(_number(a) % _number(b))


def _ceil_div(a: Value, b: Value) -> Number:
    return _bounded(-(-_number(a) // _number(b)))


def _min(*values: Value) -> Number:
    return min(_number(value) for value in values)


def _max(*values: Value) -> Number:
    return max(_number(value) for value in values)


def _neg(a: Value) -> Number:
    return _bounded(-_number(a))


def _pos(a: Value) -> Number:
    return +_number(a)


_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_ENVIRONMENT: dict[str, object] = {
    "__builtins__": {}, "+": _add, "-": _sub, "*": _mul, "/": _div, "//": _floordiv, "%": _mod,
    "-1": _neg, "+1": _pos, "min()": _min, "max()": _max, "ceil_div()": _ceil_div,
}  # fmt: skip


# --- to C ------------------------------------------------------------------------------------------


def to_c(expression: Expression) -> str:
    """The same condition in C over int64_t, to stand between the parentheses of an ``if``.

    Integers only: text, fractions and ``/`` raise `ExpressionError`, and so does a divisor that is not a
    positive number as written, because C rounds towards zero where this language rounds down.
    """
    text = _c(expression.tree)
    # A compiler warns of `if ((a == b))`.
    return text[1:-1] if text.startswith("(") and _closing(text) == len(text) - 1 else text


def _closing(text: str) -> int:
    """Where the parenthesis that ``text`` begins with is closed."""
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return position
    return -1


def _c(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=bool() as value):
            return "1" if value else "0"
        case ast.Constant(value=int() as value):
            return str(value) if value <= 2**31 - 1 else f"INT64_C({value})"
        case ast.Name(id="true"):
            return "1"
        case ast.Name(id="false"):
            return "0"
        case ast.Name(id=name):
            return f"(int64_t){_spelling(name)}"
        case ast.BoolOp(op=op, values=values):
            return "(" + (" && " if isinstance(op, ast.And) else " || ").join(map(_c, values)) + ")"
        case ast.UnaryOp(op=op, operand=operand):
            sign = "!" if isinstance(op, ast.Not) else "-" if isinstance(op, ast.USub) else "+"
            return f"({sign}{_c(operand)})"
        case ast.BinOp(left=left, op=op, right=right):
            return _c_arithmetic(node, left, op, right)
        case ast.Compare():
            return _c_comparison(node)
        case ast.Call(func=ast.Name(id="ceil_div"), args=[left, right]):
            a, b = _c(left), _divisor(right)
            return f"({a} / {b} + ({a} % {b} > 0))"
        case ast.Call(func=ast.Name(id=name), args=[first, *others]):
            return _c_extreme("<" if name == "min" else ">", _c(first), [_c(other) for other in others])
        case _:
            _not_integer(node)


def _c_arithmetic(node: ast.expr, left: ast.expr, op: ast.operator, right: ast.expr) -> str:
    match op:
        case ast.FloorDiv():
            a, b = _c(left), _divisor(right)
            return f"({a} / {b} - ({a} % {b} < 0))"
        case ast.Mod():
            a, b = _c(left), _divisor(right)
            return f"(({a} % {b} + {b}) % {b})"
        case ast.Add() | ast.Sub() | ast.Mult():
            return f"({_c(left)} {_OPERATIONS[type(op)]} {_c(right)})"
        case _:
            _not_integer(node)


def _c_comparison(node: ast.Compare) -> str:
    parts: list[str] = []
    left = _c(node.left)
    for op, operand in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            elements = operand.elts if isinstance(operand, ast.Tuple | ast.List) else [operand]
            any_of = " || ".join(f"{left} == {_c(element)}" for element in elements) or "0"
            parts.append(f"({any_of})" if isinstance(op, ast.In) else f"!({any_of})")
            continue
        right = _c(operand)
        parts.append(f"{left} {_C_COMPARISONS[type(op)]} {right}")
        left = right
    return parts[0] if len(parts) == 1 and " || " in parts[0] else "(" + " && ".join(parts) + ")"


_C_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def _c_extreme(sign: str, first: str, others: list[str]) -> str:
    for other in others:
        first = f"({first} {sign} {other} ? {first} : {other})"
    return first


def _divisor(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0:
        return _c(node)
    raise ExpressionError("here a divisor must be a positive number as written", node.col_offset + 1)


def _not_integer(node: ast.expr) -> NoReturn:
    raise ExpressionError("a condition on sizes uses integers alone", node.col_offset + 1, "write // for /")
