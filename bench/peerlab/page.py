"""The rows as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import exp, log, log2
from typing import Any

Row = Mapping[str, Any]


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def time_of(ns: float) -> str:
    for unit, size in (("ns", 1e3), ("us", 1e6), ("ms", 1e9)):
        if ns < size:
            return f"{ns / (size / 1e3):.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def families(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["family"] for row in rows))


def markdown(document: Mapping[str, Any]) -> Iterator[str]:
    rows = document["rows"]
    yield f"CPU: {document['cpu']}. Compiler: {document['compiler']}. Measured {document['written']}."
    yield ""
    yield "| peer | version | what it runs |"
    yield "|---|---|---|"
    for name, library in document["libraries"].items():
        yield f"| {name} | {library['version']} | {library['note']} |"
    yield ""
    yield "| family | shape | ours | best peer | its time | ratio | 95 % interval | other peers: ratio | reference |"
    yield "|---|---|--:|---|--:|--:|---|---|--:|"
    for row in rows:
        low, high = row["interval"]
        others = ", ".join(
            f"{name} {value:.2f}" for name, value in row["ratios"].items() if name != row["best"]
        )
        mark = "**" if high < 0.98 else ""
        yield (
            f"| {row['family']} | {row['shape']} | {time_of(row['ours_ns'])} | {row['best']} | "
            f"{time_of(row['peers'][row['best']])} | {mark}{row['ratio_best']:.2f}{mark} | {low:.2f} to {high:.2f} | "
            f"{others} | {row['reference_ratio']:.1f} |"
        )
    yield ""
    yield "| family | geometric mean over the best peer | shapes under 0.98 | over the plain reference |"
    yield "|---|--:|--:|--:|"
    for family in families(rows):
        own = [row for row in rows if row["family"] == family]
        behind = sum(row["ratio_best"] < 0.98 for row in own)
        yield (
            f"| {family} | {geometric_mean([row['ratio_best'] for row in own]):.2f} | {behind} of {len(own)} | "
            f"{geometric_mean([row['reference_ratio'] for row in own]):.1f} |"
        )
    every = geometric_mean([row["ratio_best"] for row in rows])
    yield f"| all, by shape | {every:.2f} | {sum(row['ratio_best'] < 0.98 for row in rows)} of {len(rows)} | |"


def tuning(seats: Sequence[Row]) -> Iterator[str]:
    """What the race of the mint says of each seat's winner."""
    over = "over the median row | over the slowest | over the plain reference | over the shipped fallback"
    yield f"| seat | winner | {over} |"
    yield "|---|---|--:|--:|--:|--:|"
    for seat in seats:
        plain = f"{seat['over_reference']:.2f}" if seat["over_reference"] else ""
        yield (
            f"| {seat['seat']} | {seat['winner']} | {seat['over_median']:.2f} | {seat['over_slowest']:.2f} | "
            f"{plain} | {seat['over_fallback']:.2f} |"
        )


# --- the picture ------------------------------------------------------------------------------------

LEFT, WIDTH, LINE = 210, 560, 18
OURS, THEIRS, INK, GRID = "#2a7f62", "#b5483a", "#333", "#ddd"


def picture(document: Mapping[str, Any]) -> str:
    """A bar for each shape: how much faster than its best peer, on a scale of doublings around 1."""
    rows = document["rows"]
    edges = [row["interval"] for row in rows]
    lowest = min(-1.0, *(log2(low) for low, _ in edges))
    highest = max(1.0, *(log2(high) for _, high in edges))
    height = 60 + LINE * len(rows) + 10 * len(families(rows))

    def x(value: float) -> float:
        return LEFT + WIDTH * (log2(value) - lowest) / (highest - lowest)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 110}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="8" y="18" font-size="13" fill="{INK}">'
        f"Time of the best peer over ours, one thread, {escape(document['cpu'])}</text>",
    ]
    for doubling in range(int(lowest) - 1, int(highest) + 2):
        if lowest <= doubling <= highest:
            at, colour = x(2.0**doubling), GRID if doubling else INK
            parts.append(
                f'<line x1="{at:.1f}" y1="40" x2="{at:.1f}" y2="{height - 8}" stroke="{colour}"/>'
                f'<text x="{at:.1f}" y="35" text-anchor="middle" fill="{INK}">{2.0**doubling:g}</text>'
            )
    y, last = 44, ""
    for row in rows:
        y += 10 * (row["family"] != last)
        last = row["family"]
        parts += _bar(row, x, y)
        y += LINE
    return "\n".join([*parts, "</svg>\n"])


def _bar(row: Row, x: Any, y: int) -> Iterator[str]:
    value, (low, high) = row["ratio_best"], row["interval"]
    start, end = sorted((x(1.0), x(value)))
    colour = OURS if value >= 1 else THEIRS
    name = escape(f"{row['family']} {row['shape']}")
    yield f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" fill="{INK}">{name}</text>'
    yield f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 0.5):.1f}" height="{LINE - 7}" fill="{colour}"/>'
    yield f'<line x1="{x(low):.1f}" y1="{y + 8.5}" x2="{x(high):.1f}" y2="{y + 8.5}" stroke="{INK}"/>'
    text = f"{value:.2f} {escape(row['best'])}"
    yield f'<text x="{max(end, x(high)) + 5:.1f}" y="{y + 12}" fill="{INK}" font-size="10">{text}</text>'
