"""Which rows of a family may be raced and stamped: object checks, then the gate, a word for every row."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunebuild import bench, calls, codegen, elf, features, graph
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE, Rejected, Row, RowWord, Stage
from tunebuild.plan import PlannedFamily, PlannedFunction
from tunebuild.worker import Worker

COMPILE_FAILED = "it does not compile: "


@dataclass(frozen=True, slots=True)
class RowReport:
    """One row's word. ``rejected`` says stage, reason and replay where the word is "rejected"."""

    suffix: str
    word: RowWord
    why: str = ""
    rejected: Rejected | None = None


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """``broken``: a reference that fails by itself, so that no row was judged. ``same``: rows whose machine
    code is equal, each group's first in grid order standing for it. ``unseen``: what the gate had no time for."""

    family: str
    rows: tuple[RowReport, ...]
    cases: int = 0
    broken: str = ""
    note: str = ""
    same: Mapping[str, str] | None = None
    other_architecture: int = 0
    unseen: tuple[bench.Unseen, ...] = ()

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(row.suffix for row in self.rows if row.word == "passed")

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return tuple(row.rejected for row in self.rows if row.rejected)

    @property
    def twins(self) -> dict[str, str]:
        """Each row whose machine code is that of an earlier row, which is raced for both."""
        return {suffix: first for suffix, first in (self.same or {}).items() if suffix != first}


def have(generated: Generated) -> frozenset[str]:
    """The features that code may be executed with: the box's own, never forced ones. An emulator's `max`
    CPU has every feature of its architecture."""
    arch = generated.plan.arch
    if generated.tools.target and arch != features.canonical_arch(generated.box.arch):
        return frozenset(each.name for each in features.FEATURES if each.arch == arch)
    return generated.box.features


def judge(
    generated: Generated,
    planned: PlannedFamily,
    worker: Worker,
    *,
    only: str = "",
    cases: Sequence[calls.Case] | None = None,
    sized: Collection[str] = (),
) -> FamilyReport:
    """Give every row of one family its word. ``only`` judges one row; ``cases`` replays these alone; the rows
    ``sized`` were called at large workloads before, as they are now."""
    family = planned.family
    reports: dict[str, RowReport] = {}
    runnable: list[str] = []
    here = have(generated)
    for each in planned.rows:
        suffix = each.row.suffix
        if each.place == "other architecture" or (only and suffix != only):
            continue
        report = _before_the_gate(generated, planned, each.row, each.place == "skipped" and each.why, here)
        if report is None:
            runnable.append(suffix)
        else:
            reports[suffix] = report
    gated = _Gated()
    if runnable:
        gated = _gate(planned, worker, runnable, cases, sized)
        reports |= {report.suffix: report for report in gated.rows}
    ordered = tuple(reports[each.row.suffix] for each in planned.rows if each.row.suffix in reports)
    return FamilyReport(
        family.name,
        ordered,
        gated.cases,
        gated.broken,
        gated.note,
        _equal_code(generated, planned, [row.suffix for row in ordered if row.word == "passed"]),
        sum(each.place == "other architecture" for each in planned.rows),
        gated.unseen,
    )


def _before_the_gate(
    generated: Generated, planned: PlannedFamily, row: Row, skipped: str | bool, here: frozenset[str]
) -> RowReport | None:
    """The word of a row that the gate need not see, or None."""
    family = planned.family
    cell = (family.name, row.suffix)
    if skipped:
        return RowReport(row.suffix, "skipped", str(skipped))
    if why := generated.declined.get(cell):
        return RowReport(row.suffix, "declined", why)
    if why := generated.ineligible.get(cell):
        words = why.removeprefix(COMPILE_FAILED)
        return _rejected(
            row.suffix, "compile", words, f"tunebuild explain {codegen.symbol(family.name, row.suffix)}"
        )
    if why := _calls_fault(generated, planned, row.suffix) or _object_fault(generated, planned, row.suffix):
        return _rejected(row.suffix, "load", why, f"tunebuild asm {codegen.symbol(family.name, row.suffix)}")
    if missing := features.unmet(row.requires, here):
        return RowReport(row.suffix, "not run", f"needs {', '.join(missing)}")
    return None


def _rejected(suffix: str, stage: Stage, why: str, replay: str) -> RowReport:
    return RowReport(suffix, "rejected", why, Rejected(suffix, stage, why, replay))


def symbol_fault(path: Path, name: str) -> str:
    """Why an object cannot be linked beside the other rows: it must define its own symbol and no other."""
    try:
        defined, _ = elf.global_symbols(path)
    except (OSError, ValueError) as error:
        return str(error)
    if name not in defined:
        return (
            f"it does not define {name}: a template must define the function that `prototype` and `fn` name"
        )
    others = [other for other in sorted(defined) if other != name and not other.startswith("__")]
    return f"it defines {', '.join(others)} besides {name}: make that static" if others else ""


def symbols(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The global symbols that an object defines and that it wants of others; none where there is no object."""
    try:
        return elf.global_symbols(path)
    except (OSError, ValueError):
        return frozenset(), frozenset()


def _calls_fault(generated: Generated, planned: PlannedFamily, suffix: str) -> str:
    """What a row calls that is something else, or nothing, in a normal build: there its own name is the row itself,
    and other rows and support files are not linked. Other families and companions may be called by name."""
    for function in planned.functions:
        name = codegen.symbol(function.name, suffix)
        called = symbols(_object(generated, planned.family.name, name))[1]
        if function.name in called:
            return (
                f"{name} calls {function.name}, which is the reference while rows are judged and the row itself in a "
                "normal build: write that part out, or call {{ fn }}"
            )
        for other in sorted(called):
            if _is_row(generated, other):
                base = other.partition("__")[0]
                fix = "write that part out" if base == function.name else f"call {base}, or write it out"
                return f"{name} calls {other}, which a normal build may not link: {fix}"
        if helpers := called & _supported(generated, called):
            return (
                f"{name} calls {', '.join(sorted(helpers))} of a support file, which a normal build does not link: "
                "make it static in a header that the template includes"
            )
    return ""


def _object(generated: Generated, family: str, name: str) -> Path:
    return generated.root / graph.moved(graph.object_path(family, name), generated.graph.folder)


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # one file serves several families: the first one's object is the only one


@functools.lru_cache(maxsize=4096)
def _defined(path: Path, written_ns: int) -> frozenset[str]:
    """The global symbols of an object as it was written then."""
    return symbols(path)[0] if written_ns else frozenset()


def _is_row(generated: Generated, name: str) -> bool:
    """Whether a symbol is that of a row, a reference or an oracle of this project."""
    base, _, suffix = name.partition("__")
    if not base or not suffix:
        return False
    for planned in generated.plan.families:
        if any(function.name == base for function in planned.functions):
            return suffix in (REFERENCE, "oracle", *(each.row.suffix for each in planned.rows))
    return False


def _supported(generated: Generated, called: frozenset[str]) -> frozenset[str]:
    """What the support files of the project define; nothing for who calls entries alone."""
    entries = {function.name for planned in generated.plan.families for function in planned.functions}
    if called <= entries:
        return frozenset()
    objects = {
        _object(generated, each.family.name, f"support_{path.stem}")
        for each in generated.plan.families
        for path in each.family.support
    }
    return frozenset(name for path in objects for name in _defined(path, _written_ns(path)))


def _object_fault(generated: Generated, planned: PlannedFamily, suffix: str) -> str:
    """Constructors, ifuncs and writable data: code that would run unasked, or state that a race cannot see."""
    if generated.graph.folder != graph.BUILD:  # sanitizers add constructors and data of their own
        return ""
    for function in planned.functions:
        name = codegen.symbol(function.name, suffix)
        facts = elf.scan_object(generated.root / graph.object_path(planned.family.name, name), f"__{suffix}")
        if facts.constructors:
            return f"{name} has constructors, which run before any gate"
        if facts.ifuncs:
            return f"{name} has the ifunc {facts.ifuncs[0]}"
        if facts.writable and not planned.family.state:
            return f"{name} has writable data in {facts.writable[0]}: make it const, or write state = true"
    return ""


@dataclass(frozen=True, slots=True)
class _Gated:
    rows: tuple[RowReport, ...] = ()
    cases: int = 0
    broken: str = ""
    note: str = ""
    unseen: tuple[bench.Unseen, ...] = ()


def _gate(
    planned: PlannedFamily,
    worker: Worker,
    runnable: Sequence[str],
    cases: Sequence[calls.Case] | None,
    sized: Collection[str],
) -> _Gated:
    """Gate the family, then each companion that is called on its own; one failure rejects the row."""
    faults: dict[str, Rejected] = {}
    broken, note, count = "", "", 0
    unseen: list[bench.Unseen] = []
    for function in planned.functions:
        if not function.driven:
            continue
        report = bench.gate(worker, subject(function), runnable, cases=cases, sized=sized)
        count += report.cases
        broken = broken or (f"{function.name}: {report.broken}" if report.broken else "")
        note = note or report.note
        unseen += report.unseen
        for one in report.rejected:
            own = "" if function.companion is None else f"in its companion {function.name}: "
            faults.setdefault(one.suffix, Rejected(one.suffix, one.stage, own + one.why, one.replay))
    if broken:
        rows = tuple(RowReport(suffix, "not run", broken) for suffix in runnable)
        return _Gated(rows, count, broken, note)
    rows = tuple(
        RowReport(suffix, "rejected", faults[suffix].why, faults[suffix])
        if suffix in faults
        else RowReport(suffix, "passed")
        for suffix in runnable
    )
    return _Gated(rows, count, broken, note, tuple(unseen))


def subject(function: PlannedFunction) -> calls.Subject:
    return calls.subject(function.family, function.companion)


def _equal_code(generated: Generated, planned: PlannedFamily, suffixes: Sequence[str]) -> dict[str, str]:
    """suffix -> the first row in grid order with the same machine code in every function of the family."""
    if generated.graph.folder != graph.BUILD:
        return {suffix: suffix for suffix in suffixes}
    first: dict[tuple[str, ...], str] = {}
    same: dict[str, str] = {}
    for suffix in suffixes:
        digests = tuple(
            elf.scan_object(
                generated.root
                / graph.object_path(planned.family.name, codegen.symbol(function.name, suffix)),
                f"__{suffix}",
            ).text_digest
            for function in planned.functions
        )
        same[suffix] = first.setdefault(digests, suffix)
    return same
