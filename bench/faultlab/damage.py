"""Rows 4, 20, 23 and 29: files that are torn, foreign, hostile, or of another version."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faultlab import configs
from faultlab.common import (
    BOX,
    ROOT,
    Result,
    Tally,
    environment,
    project,
    small,
    traceback_in,
    tunebuild,
    workshop,
)
from tunebuild import manifest, sidecar, verdict
from tunebuild.document import Built, Document, Unreadable, parse, render
from tunebuild.identity import match_key
from tunebuild.model import Box, Manifest
from tunebuild.resolve import Here, Source, resolve
from tunebuild.upsert import Change, Writer, merge
from tunebuild.verdict import Demand

_BUILT: Built = {"source": "a", "headers": {"vec.h": "b"}, "compiler": "gcc 12.2.0 c", "protocol": "1 p"}


def _good() -> Document:
    keys = [f"family_{number}" for number in range(12)]
    change = Change(
        kernels={key: f"u{number % 4}" for number, key in enumerate(keys)},
        race={key: {"winner": f"u{n % 4}", "rows": {"u1": {"med_us": 1.5}}} for n, key in enumerate(keys)},
        built=dict.fromkeys(keys, _BUILT),
        runtime={"threads": 8, "budget": 65536},
        notes={"noise": "ok", "kernels_version": 3},
    )
    return merge(None, change, Writer(BOX, "2026-01-02T03:04:05Z")).document


def torn(quick: bool) -> Result:
    """Row 4. Every truncation and many bit flips: unreadable with a reason, or equal; never half of it."""
    tally, chance, good = Tally(), random.Random(4), _good()
    data = render(good)
    with workshop() as folder:
        path = folder / "a.tune.json"
        for length in range(0, len(data), 7 if quick else 1):
            tally.add(f"cut at {length}", _judged(path, data[:length], good))
        for number in range(300 if quick else 2000):
            damaged = bytearray(data)
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            tally.add(f"flip {number}", _judged(path, bytes(damaged), good))
        tally.add("the command on a torn file", _command_on(folder, data[: len(data) // 2]))
    return tally.result(4, "truncated or bit-flipped sidecar")


def _judged(path: Path, data: bytes, good: Document) -> str:
    path.write_bytes(data)
    try:
        found = sidecar.read(path)
        judged = verdict.verdict(found, Demand(tuple(good.kernels)), box=BOX, path=str(path))
    except Exception as error:
        return f"raised {error!r}"
    if isinstance(found, Unreadable):
        return "" if found.why and judged.reason == "unreadable" else f"judged {judged.reason}"
    same = isinstance(found, Document) and found.kernels == good.kernels and found.race == good.race
    return "" if same else "damage was believed"


def _command_on(folder: Path, data: bytes) -> str:
    place = project(folder)
    (place / "own_clock.tune.json").write_bytes(data)
    done = tunebuild(place, "status", "--json", env=environment(folder))
    if wrong := traceback_in(done):
        return wrong
    scope = json.loads(done.stdout.splitlines()[-1])["scopes"][0]
    return "" if scope["reason"] == "unreadable" and scope["detail"] else f"status says {scope}"


def foreign(quick: bool) -> Result:
    """Row 20. Each recorded machine's file on every other one; and the closed vocabulary, word by word."""
    tally = Tally()
    boxes = [
        json.loads(path.read_text())["expect"] for path in sorted((ROOT / "tests/data/boxes").glob("*.json"))
    ]
    for theirs in boxes:
        for ours in boxes:
            here = Box(ours["identity"], "x86_64", frozenset(ours["features"].split(";")) - {""})
            notes = {"box": theirs["identity"], "features": theirs["features"]}
            found = verdict.verdict(
                Document(kernels={"f": "a"}, provenance=notes), Demand(("f",)), box=here, path="p"
            )
            same = match_key(theirs["identity"]) == match_key(ours["identity"])
            wanted = "none" if same else "foreign_box"
            told = same or (theirs["identity"] in found.detail and ours["identity"] in found.detail)
            tally.add(
                f"{theirs['identity']} on {ours['identity']}",
                "" if found.reason == wanted and told else found.reason,
            )
    for reason, why in _vocabulary():
        tally.add(reason, why)
    return tally.result(20, "file of another box, compiler, version; missing, unreadable, absent")


def _vocabulary() -> list[tuple[str, str]]:
    notes = {"box": BOX.identity, "v": "2"}
    document = Document(kernels={"f": "a"}, provenance=notes, built={"f": _BUILT})
    demand = Demand(("f",), (("v", "2"),))
    newer = {"f": {**_BUILT, "compiler": "gcc 13.1.0 d"}}
    cases: list[tuple[str, str, verdict.Found, Demand, dict[str, Built]]] = [
        ("absent", "p.tune.json", None, demand, {}),
        ("unreadable", "not JSON", Unreadable("not JSON"), demand, {}),
        ("foreign_box", BOX.identity, Document(provenance={"box": "a|b|c|d|e"}), demand, {}),
        ("version", "recorded 2, expected 3", document, Demand(("f",), (("v", "3"),)), {}),
        ("stale_binary", "gcc 12.2.0 c -> gcc 13.1.0 d", document, demand, newer),
        ("missing", "g", document, Demand(("f", "g")), {}),
        ("none", "", document, demand, {"f": _BUILT}),
    ]
    found = []
    for reason, words, file, wanted, built in cases:
        judged = verdict.verdict(file, wanted, box=BOX, path="p.tune.json", built_now=built)
        found.append((reason, "" if judged.reason == reason and words in judged.detail else f"is {judged}"))
    return found


# --- hostile --------------------------------------------------------------------------------------

_NAMES = ("scale_f32", "../../x", "f\0", "", "a" * 200, "é", "f.s", "$(x)", "box", "scale_f32\n")
_LEAVES: tuple[Any, ...] = (
    "u4", "u9", "reference", "", "../evil.so", "u4; u2", "u4\n", "\u202e", None, True, -1, 1e308, 10**30,
    [], {},
)  # fmt: skip
_POISON = ("1e999", "NaN", '"\\ud800"', "[" * 3000, "\0", "}")


def hostile(quick: bool) -> Result:
    """Row 23. Made-up sidecars: no traceback, and whatever is stamped is a row of the grid that runs here. And
    made-up tune.toml files."""
    tally, chance = Tally(), random.Random(23)
    made = manifest.read(ROOT / "tests/projects/own_clock")
    count = 2_000 if quick else 50_000
    for number in range(count):
        data = _made_up(chance)
        tally.add(f"input {number} {data[:80]!r}", _stamped(made, data))
    told = configs.mutated(quick, tally)
    return tally.result(23, f"hostile files: {count:,} sidecars; {told}")


def _stamped(made: Manifest, data: bytes) -> str:
    try:
        found = parse(data)
        fresh = verdict.fresh_entries(found, box=BOX)
        offer = Source("manifest", "p.tune.json", fresh)
        stamps = resolve(made, made.apps[0], sidecar=offer, here=Here(BOX.features))
        if isinstance(found, Document):
            again = parse(render(found))
            if again != found:
                return "does not read back as written"
            merge(found, Change(kernels={"scale_f32": "u1"}), Writer(BOX, "2026-01-02T03:04:05Z"))
    except Exception as error:
        return f"raised {error!r}"
    rows = {"reference", "u1", "u2", "u4"}
    return next((f"stamped {stamp.suffix!r}" for stamp in stamps.seats if stamp.suffix not in rows), "")


def _made_up(chance: random.Random) -> bytes:
    """A sidecar made of what hurts, or bytes that are none."""
    kind = chance.randrange(8)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    good = render(_good()).decode()
    if kind == 1:
        words = good.split('"')
        chance.shuffle(words)
        return '"'.join(words).encode()
    root: dict[str, Any] = {
        name: _nest(chance, 0)
        if chance.random() < 0.3
        else {_name(chance): _nest(chance, 1) for _ in range(3)}
        for name in chance.sample(
            ["kernels", "runtime", "race", "provenance", "built", "format", "digest", "x"], 5
        )
    }
    root.setdefault("provenance", {})
    if isinstance(root["provenance"], dict):
        root["provenance"]["box"] = BOX.identity
    if isinstance(root.get("kernels"), dict):
        root["kernels"]["scale_f32"] = _leaf(chance)
    if chance.random() < 0.8:
        for name in ("format", "digest", "x"):
            root.pop(name, None)
    text = json.dumps(root)
    if kind == 2:
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice(_POISON) + text[place:]
    if kind == 3:
        text = text.replace('{"', '{"kernels": {"scale_f32": "u4"}, "', 1)
    return text.encode(errors="surrogatepass")


def _name(chance: random.Random) -> str:
    return chance.choice(_NAMES)


def _leaf(chance: random.Random) -> Any:
    return copy.copy(chance.choice(_LEAVES))  # what is put into an empty table must not be in all of them


def _nest(chance: random.Random, depth: int) -> Any:
    if depth > 4 or chance.random() < 0.5:
        return _leaf(chance)
    make: Callable[[], Any] = lambda: _nest(chance, depth + 1)  # noqa: E731
    if chance.random() < 0.5:
        return [make() for _ in range(2)]
    return {_name(chance): make() for _ in range(2)}


def versions(quick: bool) -> Result:
    """Row 29. A file of every format that was ever written, and of one to come."""
    tally = Tally()
    for path in sorted((ROOT / "tests/data/sidecars").glob("format-*.json")):
        found = parse(path.read_bytes())
        later = path.stem == "format-2"
        good = isinstance(found, Unreadable) if later else isinstance(found, Document)
        tally.add(path.stem, "" if good else f"read as {found}")
        written = merge(found, Change(kernels={"next": "a"}), Writer(BOX, "2026-01-02T03:04:05Z"))
        tally.add(f"{path.stem}, next write", "" if "next" in written.document.kernels else "does not heal")
    with workshop() as folder:
        for name, why in _other_formats(folder):
            tally.add(name, why)
    return tally.result(29, "upgrade and downgrade: sidecars, caches and build folders of other formats")


def _other_formats(folder: Path) -> list[tuple[str, str]]:
    """A build folder and a cache whose files say another format, older and newer: made again, to the same bytes."""
    root, env = small(folder), environment(folder)
    tunebuild(root, "build", env=env)
    wanted = {path: path.read_bytes() for path in _artifacts(root)}
    found = []
    for name, (pattern, old) in _FORMATS.items():
        for other in (b"0", b"99"):
            changed = 0
            for path in folder.glob(pattern):
                data = path.read_bytes() if path.is_file() else b""
                if old in data:
                    path.write_bytes(data.replace(old, old[:-1] + other, 1))
                    changed += 1
            if pattern.startswith("cache"):
                shutil.rmtree(root / "build")  # so that it is asked
            elif name != "memo":
                for memo in (root / "build").glob("memo.*"):
                    memo.unlink()
            done = tunebuild(root, "build", env=env)
            again = {path: path.read_bytes() for path in _artifacts(root)}
            why = traceback_in(done) or (f"exit {done.returncode}" if done.returncode else "")
            why = (
                why
                or ("" if again == wanted else "other bytes")
                or ("" if changed else f"no {pattern} says {old!r}")
            )
            found.append((f"{name} of format {other.decode()}", why))
    return found


_FORMATS = {
    "memo": ("project/build/memo.*", b"tunebuild memo 2"),
    "state": ("project/build/state.json", b'"version": 1'),
    "toolchains": ("project/build/toolchains.json", b'"version": 1'),
    "cache entries": ("cache/entries/*/*", b"tunebuild-cache 1"),
}


def _artifacts(root: Path) -> list[Path]:
    return sorted([*(root / "build/obj").rglob("*.o"), *(root / "build/normal").glob("*.so")])
