"""What the commands about classes answer: (JSON document, text). `commands` prints it and exits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tunebuild import classflows, report_classes
from tunebuild.document import Json
from tunebuild.errors import UsageError

Answer = tuple[dict[str, Json], str]


def fleet(root: Path, app: str, places: Sequence[str], *, colour: bool = False) -> Answer:
    """`status --fleet DIR…`"""
    judged = classflows.fleet_status(root, app, [Path(place) for place in places])
    return report_classes.fleet_json(judged), report_classes.fleet_text(judged, colour=colour)


def profile(
    root: Path,
    app: str,
    action: Literal["export", "merge", "list", "show"],
    words: Sequence[str],
    budget_pct: float,
    scope: str = "",
) -> Answer:
    """`profile export`, `profile merge SIDECAR…`, `profile list`, `profile show [CLASS]`."""
    match action:
        case "export":
            _no_more(action, words, 0)
            return _written(classflows.export_profile(root, app, scope))
        case "merge":
            places = [Path(word) for word in words]
            return _written(classflows.merge_profiles(root, app, places, scope, budget_pct))
        case "list":
            _no_more(action, words, 0)
            found, chosen = classflows.list_profiles(root, app)
            text = report_classes.profiles_text(found, chosen)
            return report_classes.profiles_json(found, chosen), text
        case "show":
            _no_more(action, words, 1)
            shown = classflows.show_profile(root, app, words[0] if words else "")
            text = "\n".join(report_classes.profile_text(one) for one in shown)
            document: dict[str, Json] = {"profiles": [report_classes.profile_json(one) for one in shown]}
            return document, text or "no profile answers on this box"


def _no_more(action: str, words: Sequence[str], most: int) -> None:
    if len(words) > most:
        raise UsageError(
            f"profile {action} does not take {words[most]!r}", fix=f"see `profile {action} --help`"
        )


def _written(paths: Sequence[Path]) -> Answer:
    return {"written": [str(path) for path in paths]}, "\n".join(
        f"wrote {path}{_loud(path)}" for path in paths
    )


def _loud(path: Path) -> str:
    """What a profile keeps of a mint on a loud box: everybody who builds with it relies on that mint."""
    noise = json.loads(path.read_text())["provenance"].get("noise", "ok")
    return (
        ""
        if noise == "ok"
        else f" (its mint was {noise}: mint again on a quieter box before others rely on it)"
    )
