"""The gate's reports as text and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunebuild.document import Json
from tunebuild.judge import FamilyReport
from tunebuild.model import Rejected, RowWord

WORDS: tuple[RowWord, ...] = ("passed", "rejected", "declined", "not run", "skipped")


def document(reports: Sequence[FamilyReport]) -> dict[str, Json]:
    """Keys of a family: "family", "cases", "broken", "note", "unseen": [{"workload", "rows", "why"}], "rows":
    [{"row", "word", "stage", "why", "replay"}]."""
    return {"families": [_family(report) for report in reports]}


def _family(report: FamilyReport) -> dict[str, Json]:
    rows: list[Json] = [
        {
            "row": row.suffix,
            "word": row.word,
            "stage": row.rejected.stage if row.rejected else "",
            "why": row.why,
            "replay": row.rejected.replay if row.rejected else "",
        }
        for row in report.rows
    ]
    return {
        "family": report.family,
        "cases": report.cases,
        "broken": report.broken,
        "note": report.note,
        "unseen": [
            {"workload": each.workload, "rows": list(each.rows), "why": each.why} for each in report.unseen
        ],
        "other_architecture": report.other_architecture,
        "rows": rows,
    }


def text(reports: Sequence[FamilyReport]) -> str:
    """A line a family, then what is wrong and how to see it again."""
    lines: list[str] = []
    for report in reports:
        counts = {word: sum(row.word == word for row in report.rows) for word in WORDS}
        words = [f"{count} {word}" for word, count in counts.items() if count]
        if report.other_architecture:
            words.append(f"{report.other_architecture} of another architecture")
        lines.append(f"{report.family}: {', '.join(words) or 'no rows'} ({report.cases} cases)")
        if report.broken:
            lines.append(f"  {report.broken}")
        if report.note:
            lines.append(f"  {report.note}")
        lines += _rejected(report.rejected)
        lines += _grouped(report)
        for each in report.unseen:
            lines.append(f"  {_listed(each.rows)}: not called at workload {each.workload}: {each.why}")
    return "\n".join(lines)


def _rejected(rows: Sequence[Rejected]) -> list[str]:
    """Each row with its words and how to see it again. One mistake in a template fails many rows in the compiler's
    same words: these are told once."""
    alike: dict[str, list[Rejected]] = {}
    for row in rows:
        words = _NUMBERS.sub("", row.why.replace(row.suffix, "")) if row.stage == "compile" else row.suffix
        alike.setdefault(words, []).append(row)
    lines: list[str] = []
    for row, *others in alike.values():
        first, *rest = row.why.splitlines() or [""]
        lines.append(f"  {row.suffix}: rejected at {row.stage}: {first}")
        lines += [f"    {line}" for line in rest[:20]]
        lines.append(f"    replay: {row.replay}")
        if others:
            names = ", ".join(other.suffix for other in others)
            lines.append(f"  {names}: rejected at {row.stage} in the same words")
    return lines


_NUMBERS = re.compile(r"(?<=:)\d+(?=:)|^ *\d+ (?=\|)", re.M)
"""Line and column numbers in a compiler's words, which differ from row to row."""


def _grouped(report: FamilyReport) -> list[str]:
    """Rows that were not run, skipped or declined, together by reason."""
    groups: dict[tuple[RowWord, str], list[str]] = {}
    for row in report.rows:
        if row.word in ("not run", "skipped", "declined") and row.why != report.broken:
            groups.setdefault((row.word, row.why), []).append(row.suffix)
    lines = []
    for (kind, why), suffixes in groups.items():
        word = "not run here" if kind == "not run" else kind
        lines.append(f"  {_listed(suffixes)}: {word}: {why}")
    return lines


def _listed(suffixes: Sequence[str]) -> str:
    return ", ".join(suffixes[:4]) + (f" and {len(suffixes) - 4} more" if len(suffixes) > 4 else "")
