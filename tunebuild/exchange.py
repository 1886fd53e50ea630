"""Sidecars of other boxes, kept under one URL: a folder, http(s), s3, anything that fsspec opens.

    PROJECT/box/<16 hex of the match key>.json     hits for exactly this box, best first
    PROJECT/class/<class>.json                      hits for its CPU class
    PROJECT/mints/<12 hex of its content>.tune.json the documents, never changed

An index is `{"hits": [{"sha", "box", "verified", "versions", "kernels", "written"}]}`; a curator marks hits
`verified` and orders them. A document is believed only when its content has the listed hash, it fits the
schema, its version is the tree's, and its box is the one the index names. What was adopted is marked entry by
entry and is never sent on. Reading needs no lock; pushing to a folder takes one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from tunebuild import emit, sidecar
from tunebuild.document import MAX_BYTES, Built, Document, Json, Scalar, Unreadable, parse
from tunebuild.errors import Refused, UsageError, WorkFailed
from tunebuild.features import cpu_class
from tunebuild.identity import match_key
from tunebuild.model import Box, Scope
from tunebuild.shared_schema import problems
from tunebuild.upsert import EXCHANGE, Change, Merged, origin_of
from tunebuild.verdict import Demand, Pins, Unfit, any_row, parse_demand

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped, unused-ignore]

Accept = Literal["verified", "any"]
Tier = Literal["exact", "class"]
Resolver = Callable[[str, str, str], bool]

ENTRY_POINTS = "tunebuild.resolvers"  # where packages name theirs
MINT = "tunebuild mint"  # what mints the default app
_SHA = re.compile(r"[0-9a-f]{64}")
_PATH_LIKE = re.compile(r"^(~|\.{0,2}/|[A-Za-z]:[\\/]|\\\\)|^[a-z][a-z0-9+.-]*://")
_RACE_KEYS = ("winner", "fallback", "demoted", "rejected", "margin_pct", "floor_pct")
_UNSENT_NOTES = frozenset({"binary", "origin", "exchange_sha", "applied_box", "adopted_profile"})


@dataclass(frozen=True, slots=True)
class Hit:
    """One listed document. ``versions``: its pins by provenance key; ``kernels``: how many winners it has."""

    sha: str
    box: str
    tier: Tier
    verified: bool
    versions: Mapping[str, str]
    kernels: int
    written: str = ""


@dataclass(frozen=True, slots=True)
class Here:
    """The tree and box that ask: what a document must fit, and what stands beside adopted winners."""

    project: str
    box: Box
    path: Path  # the sidecar
    built_now: Mapping[str, Built]
    binary_s: int | None = None
    unfit: Unfit = any_row  # which of the donor's rows cannot serve here
    pins: Pins = field(default_factory=dict)


# --- reading --------------------------------------------------------------------------------------


def lookup(url: str, project: str, box: Box) -> tuple[Hit, ...]:
    """What the exchange lists for this box, then for its class, each in its own order.

    :raises WorkFailed: when the exchange cannot be reached or lists nonsense. No listing is no hit.
    """
    platform = box.identity.partition("|")[0]
    names = (
        ("exact", _box_index(box.identity)),
        ("class", _class_index(cpu_class(box.features, platform, box.arch))),
    )
    hits = [hit for tier, name in names for hit in _index(url, f"{project}/{name}", cast("Tier", tier))]
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.sha, hit)
    return tuple(first.values())


def pick(hits: tuple[Hit, ...], demand: Demand, accept: Accept = "verified") -> Hit | None:
    """The first hit of the wanted versions; with ``accept`` "verified" the first verified one."""
    fitting = (
        hit for hit in hits if all(hit.versions.get(key, value) == value for key, value in demand.pins)
    )
    return next((hit for hit in fitting if hit.verified or accept == "any"), None)


def fetch(url: str, project: str, hit: Hit, demand: Demand) -> Document:
    """The document of a hit, checked: hash, schema, version, box.

    :raises Refused: naming the check that failed; nothing was written.
    """
    place = f"{project}/mints/{hit.sha[:12]}{sidecar.SUFFIX}"
    data = _get(url, place)
    if data is None:
        raise Refused(f"the exchange lists {place} and does not have it", where=url)
    if hashlib.sha256(data).hexdigest() != hit.sha:
        raise Refused(f"{place}: its content does not have the listed hash", where=url)
    found = parse(data)
    wrong = (found.why,) if isinstance(found, Unreadable) else problems(_shared_form(data))
    if isinstance(found, Unreadable) or wrong:
        raise Refused(f"{place}: {wrong[0]}", where=url)
    for key, value in demand.pins:
        recorded = found.provenance.get(key)
        if str(recorded) != value:
            raise Refused(f"{place}: {key} is {recorded}, this tree has {value}", where=url)
    if match_key(found.box) != match_key(hit.box):
        raise Refused(f"{place}: measured on {found.box}, the exchange says {hit.box}", where=url)
    return found


def adopt(here: Here, document: Document, sha: str, demand: Demand) -> Merged:
    """Fill what the sidecar does not hold fresh with the winners of another box's document.

    Only keys of this tree are taken, with rows that can serve here. The tree's digests stand beside each
    entry, the donor's as `origin_built`; `applied_box` is written only when the donor is another box.
    """
    kernels = {
        key: row
        for key, row in document.kernels.items()
        if row and key in here.built_now and not here.unfit(key, row)
    }
    notes: dict[str, Scalar] = {"origin": EXCHANGE, "exchange_sha": sha}
    if match_key(document.box) != match_key(here.box.identity):
        notes["applied_box"] = here.box.identity
    change = Change(
        kernels=kernels,
        built={key: _adopted(here, document, key) for key in kernels},
        race={key: document.race[key] for key in kernels if key in document.race},
        notes={**dict(demand.pins), **notes},
        origin=EXCHANGE,
    )
    return sidecar.save(
        here.path,
        change,
        box=here.box,
        built_now=here.built_now,
        binary_s=here.binary_s,
        unfit=here.unfit,
        pins=here.pins,
    )


def _adopted(here: Here, document: Document, key: str) -> Built:
    donor: dict[str, Json] = {"origin_box": document.box}
    if key in document.built:
        donor["origin_built"] = dict(document.built[key])
    return {**here.built_now[key], **donor}


def pull(url: str, here: Here, demand: Demand, accept: Accept = "verified") -> Merged | None:
    """Look up, pick, fetch, check, adopt; None when nothing listed fits. Raises as `lookup`, `fetch` do."""
    hit = pick(lookup(url, here.project, here.box), demand, accept)
    if hit is None:
        return None
    return adopt(here, fetch(url, here.project, hit, demand), hit.sha, demand)


def nothing_fits(url: str, here: Here, demand: Demand, command: str = MINT) -> UsageError:
    """Why `pull` found nothing, and what to do: asked only then, so that it may look again. ``command`` mints here."""
    mint = f"run `{command}`, which measures this box"
    system, root = _open(url)
    if _is_local(system) and not Path(root).is_dir():
        return UsageError(f"there is no folder {root}", where=url, fix="name the folder of an exchange")
    hits = lookup(url, here.project, here.box)
    if not hits:
        return UsageError(
            f"nothing is listed for {here.project} on this box or its class", where=url, fix=mint
        )
    if pick(hits, demand, "any"):
        what = "what is listed for this box and version is unverified"
        return UsageError(what, where=url, fix=f"adopt it with `--accept any`, or {mint}")
    pins = ", ".join(f"{key} {value}" for key, value in demand.pins)
    return UsageError(f"what is listed for this box is of another version than {pins}", where=url, fix=mint)


# --- sending --------------------------------------------------------------------------------------


def shareable(
    document: Document, box: Box, seats: Collection[str] | None = None, command: str = MINT
) -> dict[str, Json]:
    """The document as it may leave this box: no paths, no foreign entries, only what the schema knows.

    ``seats``: the keys that the tree has, None for all. What else the file holds stays at home and hinders nothing.
    ``command``: what mints the app.

    :raises Refused: for one that was adopted, measured elsewhere, or holds nothing measured here.
    """
    if document.provenance.get("applied_box") or match_key(document.box) != match_key(box.identity):
        raise Refused(
            f"this sidecar was measured on {document.box or 'no box'}, not here: it is not sent",
            fix=f"run a full `{command}` here, then push",
        )
    known = [key for key in document.kernels if seats is None or key in seats]
    origins = {key: origin_of(document, key) for key in known}
    gone = {origin_of(document, key) for key in document.kernels if key not in origins}
    noted = document.provenance.get("origin") == EXCHANGE and EXCHANGE not in gone
    if EXCHANGE in origins.values() or noted:
        raise Refused(
            "this sidecar holds entries that came from the exchange: they are not sent on",
            fix=f"run a full `{command}`, which replaces every adopted winner, then push",
        )
    own = {key: document.kernels[key] for key in known if document.kernels[key] and not origins[key]}
    if not own:
        raise Refused("this sidecar holds nothing that was measured here", fix=f"run `{command}` first")
    root: dict[str, Json] = {
        "kernels": dict(own),
        "runtime": dict(document.runtime),
        "race": {key: _shared_race(document.race[key]) for key in own if key in document.race},
        "provenance": {
            k: v for k, v in document.provenance.items() if k not in _UNSENT_NOTES and _sendable(k, v)
        },
        "built": {key: dict(document.built[key]) for key in own if key in document.built},
    }
    if wrong := problems(root):
        raise Refused(f"this sidecar does not fit the exchange: {wrong[0]}", fix="mint anew, then push")
    return root


def push(
    url: str,
    project: str,
    document: Document,
    box: Box,
    demand: Demand,
    seats: Collection[str] | None = None,
    command: str = MINT,
) -> Hit:
    """Send this box's sidecar; it is listed unverified, after those already there. The same content once.

    :raises Refused: see `shareable`. :raises WorkFailed: when the exchange cannot be written.
    """
    root = shareable(document, box, seats, command)
    kernels = root["kernels"]
    assert isinstance(kernels, dict)
    data = (json.dumps(root, sort_keys=True, indent=2) + "\n").encode()
    platform = box.identity.partition("|")[0]
    versions = {key: str(document.provenance.get(key, "")) for key, _ in demand.pins}
    hit = Hit(
        hashlib.sha256(data).hexdigest(), document.box, "exact", False, versions,
        len(kernels), str(document.provenance.get("written", "")),
    )  # fmt: skip
    _put(url, f"{project}/mints/{hit.sha[:12]}{sidecar.SUFFIX}", data)
    for name in (_box_index(document.box), _class_index(cpu_class(box.features, platform, box.arch))):
        _list(url, f"{project}/{name}", hit)
    return hit


def _sendable(key: str, value: Json) -> bool:
    """Scalars that name no path; a slash inside a CPU brand is no path."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return key == "box" or not (isinstance(value, str) and _PATH_LIKE.search(value))


def _shared_race(table: Mapping[str, Json]) -> dict[str, Json]:
    """Winner, margins and times; what else a race recorded stays at home."""
    kept: dict[str, Json] = {
        key: table[key] for key in _RACE_KEYS if isinstance(table.get(key), str | int | float)
    }
    rows = table.get("rows")
    if isinstance(rows, dict):
        kept["rows"] = {
            suffix: {k: v for k, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            for suffix, row in rows.items()
            if isinstance(row, dict)
        }
    return kept


# --- the resolver of tune.toml --------------------------------------------------------------------


def resolver(scope: Scope, here: Here, accept: Accept = "verified") -> Resolver | None:
    """What `resolver` of a scope names: the exchange, an installed package's entry point, or a function of a
    Python file. None: nothing.

    It takes the scope's name, the sidecar's path and the demand as text, and says whether to look again.
    """
    if not scope.resolver:
        return None
    kind, _, rest = scope.resolver.partition(":")
    if kind == EXCHANGE:
        return lambda _scope, _path, demand: pull(rest, here, parse_demand(demand), accept) is not None
    if kind == "entry":
        return _installed(rest)
    file, _, name = scope.resolver.rpartition(":")
    return _function(scope.root / file, name)


def _function(path: Path, name: str) -> Resolver:
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"tunebuild_resolver_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _callable(getattr(module, name, None), f"{path} has no function {name}", name)


def _installed(name: str) -> Resolver:
    from importlib.metadata import entry_points

    known = entry_points(group=ENTRY_POINTS)
    if name not in known.names:
        listed = ", ".join(sorted(known.names)) or "none"
        raise UsageError(f"no installed package has the resolver {name}", fix=f"installed: {listed}")
    return _callable(known[name].load(), f"the entry point {name} of {ENTRY_POINTS} is no function", name)


def _callable(found: object, otherwise: str, name: str) -> Resolver:
    if not callable(found):
        raise UsageError(otherwise, fix=f"define {name}(scope, path, demand) -> bool")
    return cast("Resolver", found)


# --- under the URL --------------------------------------------------------------------------------


def _box_index(identity: str) -> str:
    return f"box/{hashlib.sha256(match_key(identity).encode()).hexdigest()[:16]}.json"


def _class_index(name: str) -> str:
    return f"class/{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}.json"


def _index(url: str, place: str, tier: Tier) -> tuple[Hit, ...]:
    data = _get(url, place)
    if data is None:
        return ()
    try:
        root = json.loads(data.decode())
        rows = root["hits"]
        return tuple(_hit(row, tier) for row in rows)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorkFailed(f"{place} is no index of an exchange", where=url) from error


def _hit(row: Mapping[str, Json], tier: Tier) -> Hit:
    sha, box, versions, kernels = row["sha"], row["box"], row.get("versions", {}), row.get("kernels", 0)
    if not (
        isinstance(sha, str) and _SHA.fullmatch(sha) and isinstance(box, str) and isinstance(versions, dict)
    ):
        raise ValueError("not a hit")
    counted = kernels if isinstance(kernels, int) else 0
    pins = {key: str(value) for key, value in versions.items()}
    return Hit(sha, box, tier, row.get("verified") is True, pins, counted, str(row.get("written", "")))


def _list(url: str, place: str, hit: Hit) -> None:
    """Append one hit to an index, once. Between two writers of an object store the last one wins."""
    entry = {
        "sha": hit.sha, "box": hit.box, "verified": hit.verified, "versions": dict(hit.versions),
        "kernels": hit.kernels, "written": hit.written,
    }  # fmt: skip

    def append() -> None:
        data = _get(url, place)
        root = json.loads(data.decode()) if data else {"hits": []}
        if all(row.get("sha") != hit.sha for row in root["hits"]):
            root["hits"].append(entry)
            _put(url, place, (json.dumps(root, sort_keys=True, indent=1) + "\n").encode())

    system, root = _open(url)
    if _is_local(system):
        with emit.locked(Path(root) / place):
            append()
    else:
        append()


def _open(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise UsageError(
            "the exchange needs the package fsspec", fix="pip install 'tunebuild[exchange]'"
        ) from error
    try:
        system, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"cannot open {url}: {error}", fix="install the package that this kind of URL needs"
        ) from error
    return system, str(root).rstrip("/")


def _is_local(system: AbstractFileSystem) -> bool:
    protocol = system.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _get(url: str, place: str) -> bytes | None:
    """The bytes under a URL, None when there are none.

    :raises WorkFailed: when the exchange does not answer, or sends more than a sidecar may have.
    """
    system, root = _open(url)
    streaming = {} if _is_local(system) else {"block_size": 0} if url.startswith("http") else {}
    try:
        with system.open(f"{root}/{place}", "rb", **streaming) as stream:
            data = bytes(stream.read(MAX_BYTES + 1))
    except Exception as error:  # every kind of store has errors of its own
        if _absent(error):
            return None
        words = str(error.__cause__ or error) or type(error).__name__
        raise WorkFailed(f"the exchange does not answer: {words}", where=url) from error
    if len(data) > MAX_BYTES:
        raise WorkFailed(f"{place} is larger than {MAX_BYTES} bytes", where=url)
    return data


def _absent(error: BaseException) -> bool:
    """Is this "no such file" and not a dead server? fsspec's HTTP says the former for both, and why below."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError):
        return getattr(error, "status", 0) == 404
    return cause is None or _absent(cause)


def _put(url: str, place: str, data: bytes) -> None:
    system, root = _open(url)
    if _is_local(system):
        path = Path(root) / place
        emit.sweep_temporaries(path.parent, r"[0-9A-Za-z_.-]+\.json")
        emit.write_durable(path, data)
        return
    try:
        system.makedirs(f"{root}/{place.rpartition('/')[0]}", exist_ok=True)
        system.pipe_file(f"{root}/{place}", data)
    except Exception as error:
        raise WorkFailed(
            f"the exchange cannot be written: {error or type(error).__name__}", where=url
        ) from error


def _shared_form(data: bytes) -> Json:
    root = json.loads(data.decode())
    return {key: value for key, value in root.items() if key not in ("format", "digest")}
