"""The catalogue's error against float64: how far off every family is, where, and by how much more than it must be.

    python bench/accuracy.py                     the library that a normal build left, beside the plain references
    python bench/accuracy.py --rows              and every row that this CPU can run
    python bench/accuracy.py --family exp_f32    one family, or several with commas
    python bench/accuracy.py --rows --docs       writes the table of docs/accuracy.md; --json: one document

Takes what `tunebuild build` and `tunebuild build --mode tune` left in the project (`--project`, this one if not
given); references and rows need the second. Exits with 1 if a family is past its bound. ggml's columns are there if
`bench/peers.py --ggml` fetched it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from accuracylab import ggml
from accuracylab.callers import Callee, Library, call, callees, functions
from accuracylab.error import Error, Runner, measured
from accuracylab.subjects import Arrays, Scalars, Subject, catalogue

from tunebuild import features, host, manifest
from tunebuild.model import REFERENCE, Function

NO_WORSE = 1.1  # mean square errors, over those that a family's format makes by itself


@dataclass(frozen=True, slots=True)
class Line:
    """One family. ``row`` and ``rows``: the row that is furthest off, and how many there were."""

    family: str
    errors: Mapping[str, Error]  # ours, reference, format, ggml, rows: those that there are
    row: str = ""
    rows: int = 0

    @property
    def within(self) -> bool:
        own = [self.errors[name] for name in ("ours", "rows") if name in self.errors]
        most = NO_WORSE * self.errors["format"].nmse if "format" in self.errors else math.inf
        return all(error.share <= 1 and error.nmse <= most for error in own)


def main() -> int:
    asked = arguments()
    subjects = chosen(catalogue(), asked.family)
    lines = list(against_float64(asked.project, subjects, every_row=asked.rows, seed=asked.seed))
    if asked.json:
        print(json.dumps({"families": [asdict(line) for line in lines]}, indent=1))
    else:
        print("\n".join(markdown(lines)))
    if asked.docs:
        write(lines)
    for line in lines:
        if not line.within:
            print(f"accuracy: {line.family} is past its bound", file=sys.stderr)
    return 0 if all(line.within for line in lines) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", default="", help="names, with commas; all if not given")
    parser.add_argument(
        "--rows", action="store_true", help="every row of the tune binary that runs here, too"
    )
    parser.add_argument("--json", action="store_true", help="print one document")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/accuracy.md")
    parser.add_argument("--project", type=Path, default=ROOT, help="a built copy of the catalogue")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def chosen(subjects: Sequence[Subject], names: str) -> list[Subject]:
    wanted = set(filter(None, names.split(",")))
    found = [subject for subject in subjects if not wanted or subject.name in wanted]
    if unknown := wanted - {subject.name for subject in found}:
        raise SystemExit(f"there is no family {', '.join(sorted(unknown))}")
    return found


def against_float64(
    project: Path, subjects: Iterable[Subject], *, every_row: bool = False, seed: int = 1
) -> Iterator[Line]:
    """A line for each subject."""
    read = manifest.read(project)
    known, called = functions(read), callees(read)
    app = read.project.name
    normal = opened(project / f"build/normal/lib{app}.so", "tunebuild build")
    rows = project / f"build/tune/lib{app}_tune.so"
    tune = opened(rows, "tunebuild build --mode tune") if every_row or rows.exists() else None
    theirs = ggml.runners(ROOT / "build/peers")
    for subject in subjects:
        callee = called[subject.name]
        runners = {
            "ours": runner(normal, callee, known),
            **({"reference": runner(tune, callee, known, REFERENCE)} if tune else {}),
            **({"format": subject.format} if subject.format else {}),
            **({"ggml": theirs[subject.name]} if subject.name in theirs else {}),
        }
        each = rows_of(tune, callee, known) if tune and every_row else {}
        errors = measured(subject, callee, {**runners, **each}, seed)
        line = Line(subject.name, {name: errors[name] for name in runners})
        yield with_rows(line, {suffix: errors[suffix] for suffix in each}) if each else line


def rows_of(tune: Library, callee: Callee, known: Mapping[str, Function]) -> dict[str, Runner]:
    """The rows of the tune binary that this CPU can run."""
    have, there = features.believed(host.box()), tune.rows(callee.function.name)
    return {
        row.suffix: runner(tune, callee, known, row.suffix)
        for row in callee.rows
        if row.suffix in there and features.requires_ok(row.requires, have)
    }


def with_rows(line: Line, errors: Mapping[str, Error]) -> Line:
    worst = max(errors, key=lambda suffix: errors[suffix].share)
    return replace(line, errors={**line.errors, "rows": errors[worst]}, row=worst, rows=len(errors))


def opened(path: Path, command: str) -> Library:
    if not path.exists():
        raise SystemExit(f"{path} is not there: run `{command}`, or give --project")
    return Library(path)


def runner(library: Library, callee: Callee, known: Mapping[str, Function], suffix: str = "") -> Runner:
    """Prepares as the family says, with the same row, then calls it."""
    address = library.address(callee.function.name, suffix)
    before = [(known[one.function], one.arguments) for one in callee.prepare]
    prepared = [(function, library.address(function.name, suffix), names) for function, names in before]

    def run(values: Arrays, scalars: Scalars) -> Any:
        given = {**scalars, **values}
        for function, where, names in prepared:
            named = {p.name: given[name] for p, name in zip(function.parameters, names, strict=True)}
            call(function, where, named)
        return call(callee.function, address, given)

    return run


def markdown(lines: Sequence[Line]) -> Iterator[str]:
    every = any(line.rows for line in lines)
    more = " rows that ran | furthest off | its largest error, nmse |" if every else ""
    yield f"| family | largest error | ulps | nmse | where | reference: largest, nmse |{more} of the bound |"
    yield f"|---|--:|--:|--:|---|---|{'--:|---|---|' if every else ''}--:|"
    for line in lines:
        ours, plain = line.errors["ours"], line.errors.get("reference")
        worst = line.errors.get("rows", ours)
        ulps = f"{ours.ulps:.2f}" if ours.ulps else ""
        more = f" {line.rows} | {line.row} | {pair(worst)} |" if every else ""
        cells = (
            line.family,
            number(ours.largest),
            ulps,
            number(ours.nmse),
            ours.at,
            pair(plain) if plain else "",
        )
        yield f"| {' | '.join(cells)} |{more} {max(ours.share, worst.share):.2f} |"
    narrow = [line for line in lines if "format" in line.errors or "ggml" in line.errors]
    if narrow:
        yield ""
        yield "| narrow format | ours: largest, nmse | the format alone, in float64 | ggml |"
        yield "|---|---|---|---|"
    for line in narrow:
        cells = (
            pair(line.errors[name]) if name in line.errors else "" for name in ("ours", "format", "ggml")
        )
        yield f"| {line.family} | {' | '.join(cells)} |"


def number(value: float) -> str:
    return f"{value:.1e}" if value else "0"


def pair(error: Error) -> str:
    return f"{number(error.largest)}, {number(error.nmse)}"


def write(lines: Sequence[Line]) -> None:
    """The tables between the marks of docs/accuracy.md."""
    path = ROOT / "docs/accuracy.md"
    before, start, rest = path.read_text().partition("<!-- errors -->\n")
    after = rest.partition("<!-- end of errors -->\n")
    path.write_text(before + start + "\n".join(markdown(lines)) + "\n" + "".join(after[1:]))


if __name__ == "__main__":
    sys.exit(main())
