"""A sidecar as one HTML page: a picture for each race, no script, nothing fetched. Pure.

Each row of a race is a line: its gain over the fallback as a dot, its 95 % interval as a bar. The fallback is
zero; the bar that a winner must clear is the dashed line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape

from tunebuild.document import Document, Json

_LEFT, _WIDTH, _STEP, _TOP = 260, 900, 18, 26
_MAX_ROWS = 60
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --faint: #8a8a8a; --line: #d0d0d0; --win: #0a6ebd; --row: #555; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --faint: #8f8f8f; --line: #444; --win: #62b0f0; --row: #aaa; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .2rem; }
p { margin: .3rem 0; max-width: 46rem; } table { border-collapse: collapse; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } td:first-child { color: var(--faint); }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px ui-monospace, monospace; fill: var(--ink); }
svg .faint { fill: var(--faint); } .axis { stroke: var(--line); } .bar { stroke: var(--faint); stroke-dasharray: 4 3; }
.span { stroke: var(--row); stroke-width: 2; } .dot { fill: var(--row); } .won { fill: var(--win); stroke: var(--win); }
"""


def page(title: str, document: Document) -> str:
    """The whole page. ``title`` names the app."""
    races = "\n".join(_race(key, entry) for key, entry in sorted(document.race.items()))
    facts = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>"
        for name, value in sorted(document.provenance.items())
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: races</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{escape(title)}: the races on this box</h1>\n"
        "<p>Each line is a row: the dot is how much less time it takes than the fallback, the bar its 95&#8239;% "
        "interval. A winner must clear the dashed line by itself.</p>\n"
        f"{races}\n<h2>Provenance</h2>\n<table>{facts}</table></body></html>\n"
    )


def _number(value: Json | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _race(key: str, entry: Mapping[str, Json]) -> str:
    rows = entry.get("rows")
    known = (
        {name: row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}
    )
    winner = str(entry.get("winner", ""))
    words = [f"winner <b>{escape(winner)}</b>", f"held by {escape(str(entry.get('held_by', 'unknown')))}"]
    if (margin := _number(entry.get("margin_pct"))) is not None:
        words.append(f"margin {margin:.2f}&#8239;% over {escape(str(entry.get('fallback', '')))}")
    if demoted := entry.get("demoted"):
        words.append(f"{escape(str(demoted))} was demoted")
    if rejected := entry.get("rejected"):
        words.append(f"rejected: {escape(str(rejected))}")
    return f"<h2>{escape(key)}</h2>\n<p>{'; '.join(words)}.</p>\n{_picture(known, winner, entry)}"


def _picture(rows: Mapping[str, Mapping[str, Json]], winner: str, entry: Mapping[str, Json]) -> str:
    gains = {name: gain for name, row in rows.items() if (gain := _number(row.get("gain_pct"))) is not None}
    shown = sorted(gains, key=lambda name: -gains[name])[:_MAX_ROWS]
    if not shown:
        return "<p>No row was timed.</p>"
    bar = _number(entry.get("floor_pct")) or 0.0
    # One very slow row would press all the others together: past -60 % a dot stands at the edge.
    low = max(min(0.0, *(gains[name] for name in shown)), -60.0)
    high = max(bar, *(gains[name] for name in shown), 1.0)
    scale = (_WIDTH - _LEFT - 90) / (high - low)

    def x(gain: float) -> float:
        return round(_LEFT + (min(max(gain, low), high) - low) * scale, 1)

    height = _TOP + _STEP * len(shown) + 6
    parts = [
        f'<line class="axis" x1="{x(0)}" x2="{x(0)}" y1="16" y2="{height}"/>',
        f'<text class="faint" x="{x(0)}" y="11" text-anchor="middle">fallback</text>',
        f'<line class="bar" x1="{x(bar)}" x2="{x(bar)}" y1="16" y2="{height}"/>',
    ]
    for index, name in enumerate(shown):
        parts += _line(name, rows[name], gains[name], name == winner, _TOP + _STEP * index + 8, x)
    label = f"Gain over the fallback of {len(shown)} rows; the winner is {winner}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
        + ("" if len(gains) <= _MAX_ROWS else f"<p>{len(gains) - _MAX_ROWS} slower rows are not drawn.</p>")
    )


def _line(
    name: str, row: Mapping[str, Json], gain: float, won: bool, y: int, x: Callable[[float], float]
) -> Iterable[str]:
    mark = " won" if won else ""
    yield f'<text x="{_LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
    interval = row.get("interval_pct")
    if isinstance(interval, list) and len(interval) == 2:
        low, high = _number(interval[0]), _number(interval[1])
        if low is not None and high is not None:
            yield f'<line class="span{mark}" x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}"/>'
    title = f"<title>{escape(name)}: {gain:+.2f} %</title>"
    yield f'<circle class="dot{mark}" cx="{x(gain)}" cy="{y}" r="4">{title}</circle>'
    median = _number(row.get("med_us"))
    if median is not None:
        yield f'<text class="faint" x="{_WIDTH}" y="{y + 4}" text-anchor="end">{median:.4g} us</text>'
