"""Mutants: every small change of the statistics and the protocol that a test ought to notice.

One operator, comparison, constant or condition is changed at a time, and the checks are run on the result.
A mutant that every check accepts has survived: either nobody looks there, or the change means nothing.
"""

from __future__ import annotations

import ast
import copy
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("stats", "windows", "race", "validate", "noise")

_CPU_S = 30  # of a processor, so that a busy machine condemns nobody

_WITH_TESTS = ("stats", "windows")  # modules whose unit tests may kill as well

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    line: int
    what: str
    source: str


def mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its source."""
    tree = ast.parse((ROOT / "tunebuild" / f"{module}.py").read_text())
    places = [node for function in _functions(tree) for node in _walk(function)]
    for index, node in enumerate(places):
        for variant in range(_variants(node)):
            changed = copy.deepcopy(tree)
            target = [each for function in _functions(changed) for each in _walk(function)][index]
            what = _mutate(target, variant)
            yield Mutant(module, getattr(node, "lineno", 0), what, ast.unparse(changed))


def _is_equivalent(node: ast.AST) -> bool:
    """`strict=` guards against our own mistakes, never against data: no test can tell."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not _is_equivalent(child):
            yield from _walk(child)


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found += [
                each for each in node.body if isinstance(each, ast.FunctionDef) and each.name != "__str__"
            ]
    return found


def _variants(node: ast.AST) -> int:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            return int(type(op) in _SWAPS)
        case ast.Compare(ops=[op]):
            return int(type(op) in _SWAPS)
        case ast.Constant(value=value) if isinstance(value, int | float):
            return 1
        case ast.UnaryOp(op=ast.Not()) | ast.UnaryOp(op=ast.USub()):
            return 1
        case ast.Continue() | ast.Break():
            return 1
    return 0


def _mutate(node: ast.AST, variant: int) -> str:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            node.op = _SWAPS[type(op)]()  # type: ignore[union-attr, assignment]
            return f"{type(op).__name__} to {type(node.op).__name__}"
        case ast.Compare(ops=[op]):
            node.ops = [_SWAPS[type(op)]()]  # type: ignore[list-item]
            return f"{type(op).__name__} to {type(node.ops[0]).__name__}"
        case ast.Constant(value=bool(value)):
            node.value = not value
            return f"{value} to {node.value}"
        case ast.Constant(value=value):
            assert isinstance(value, int | float)
            node.value = value + 1 if isinstance(value, int) else value * 2 + 0.5
            return f"{value} to {node.value}"
        case ast.UnaryOp():
            dropped = type(node.op).__name__
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if dropped == "Not":
                node.operand = ast.UnaryOp(ast.Not(), node.operand)
            return f"{dropped} dropped"
        case ast.Continue() | ast.Break():
            was = type(node).__name__
            node.__class__ = ast.Pass  # type: ignore[assignment]
            return f"{was} to Pass"
    raise TypeError(node)


def chosen(count: int, seed: int = 1) -> list[Mutant]:
    """``count`` mutants drawn from all modules; all of them for 0."""
    everything = [mutant for module in MODULES for mutant in mutants(module)]
    return random.Random(seed).sample(everything, min(count, len(everything))) if count else everything


def killed_by(mutant: Mutant) -> str:
    """The first check that fails on the mutant, or the file of its unit tests; "" if it survives."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "tunebuild"
        package.mkdir()
        for file in (ROOT / "tunebuild").glob("*.py"):
            if file.stem != mutant.module:
                (package / file.name).symlink_to(file)
        (package / f"{mutant.module}.py").write_text(mutant.source)
        code = (
            f"import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, ({_CPU_S}, {_CPU_S}))\n"
            f"sys.path[:0] = [{folder!r}, {str(ROOT / 'bench')!r}]\n"
            "from lab.bugs import first_failure\nprint(first_failure(('recorded_scenes_are_decided_as_before', '')))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if done.returncode == -signal.SIGKILL:
            return "runs for ever"
        if done.returncode:
            return "does not even run"
        tests = ROOT / f"tests/unit/test_{mutant.module}.py"
        if done.stdout.strip() or mutant.module not in _WITH_TESTS:
            return done.stdout.strip()
        command = [sys.executable, "-m", "pytest", "-qx", "-n", "0", "-p", "no:cacheprovider", tests]
        env = os.environ | {"PYTHONPATH": folder}
        tested = subprocess.run(command, capture_output=True, env=env, cwd=folder)
    return tests.name if tested.returncode else ""
