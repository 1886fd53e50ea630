"""Is a recorded winner still true, and if not, why not. Decides only: the caller reads and knows the tree.

Order of reasons: those of the whole file (`absent`, `unreadable`, `stale_binary` of all, `foreign_box`), then
`version`, `stale_binary` with the names and inputs that changed or the row that cannot serve, `missing`.
`fresh_entries` and `verdict` share every test, so what is stamped and what is judged complete cannot disagree: a winner
of another version than its scope pins counts for nothing, as a class profile of another version does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from tunebuild.document import INPUTS, Built, Document, Json, Unreadable
from tunebuild.features import BY_NAME, FIRST_TABLE, fingerprint_difference
from tunebuild.identity import match_key
from tunebuild.model import Box, Reason, Verdict

VERSION_TOKEN = "@version:"
ABSENT = "absent"
"""What `built` says instead of an optional compiler that a box lacks."""
Found = Document | Unreadable | None
Unfit = Callable[[str, str], str]
"""Why the row of a seat (key, suffix) cannot serve here, as the end of a sentence about it; "" when it can."""
Pin = tuple[str, str]
"""The note of a version, and the version that the tree has."""
Pins = Mapping[str, Pin]
"""What each winner must have been measured at, by its key; keys of scopes without a version are not in it."""
NO_PINS: Pins = MappingProxyType({})
_BOX_ENTRIES = 6  # names listed before "and N more"


def any_row(key: str, suffix: str) -> str:
    """The `Unfit` of a caller that knows no grid: every row serves."""
    return ""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a scope wants answered: seat keys in order, and ``pins`` of (provenance key, expected text)."""

    keys: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys or self.pins)


def parse_demand(text: str) -> Demand:
    """A `;`-joined demand; `@version:KEY=VALUE` pins, and such a token without `=` asks for nothing."""
    parts = [part for part in text.split(";") if part]
    tokens = (part.removeprefix(VERSION_TOKEN) for part in parts if part.startswith("@"))
    pins = tuple((key, value) for key, equals, value in (t.partition("=") for t in tokens) if equals)
    return Demand(tuple(part for part in parts if not part.startswith("@")), pins)


def demand_text(demand: Demand) -> str:
    return ";".join((*demand.keys, *(f"{VERSION_TOKEN}{key}={value}" for key, value in demand.pins)))


# --- the judgement --------------------------------------------------------------------------------


def verdict(
    found: Found,
    demand: Demand,
    *,
    box: Box,
    path: str,
    built_now: Mapping[str, Built] | None = None,
    binary_s: int | None = None,
    unfit: Unfit = any_row,
) -> Verdict:
    """Judge one sidecar for one demand.

    ``built_now``: the tree's digests by seat key; a seat that it lacks is not judged by content.
    ``binary_s``: the time of the stamp file or the released executable, whole seconds, None for none.
    ``unfit``: which recorded winners cannot serve this tree on this box; their seats are stale.
    """
    if not demand:
        return Verdict("none")
    whole = whole_file(found, box=box, path=path, built_now=built_now, binary_s=binary_s)
    if whole.reason != "none" or not isinstance(found, Document):
        return Verdict(whole.reason, whole.detail, missing=demand.keys)
    recorded = tuple(key for key in demand.keys if key in found.kernels)
    misfits = {key: why for key in recorded if (why := misfit(found, key, unfit))}
    changed = {
        key: what
        for key in recorded
        if key not in misfits and (what := changes(found, key, built_now or {}, binary_s))
    }
    stale = tuple(key for key in recorded if key in misfits or key in changed)
    missing = tuple(key for key in demand.keys if key not in found.kernels)
    if broken := next(filter(None, (other_version(found, pin) for pin in demand.pins)), ""):
        return Verdict("version", broken, missing=missing, stale=stale)
    if stale:
        return Verdict("stale_binary", _stale_words(misfits, changed), missing=missing, stale=stale)
    if missing:
        return Verdict("missing", ";".join(missing), missing=missing)
    return Verdict("none")


def whole_file(
    found: Found,
    *,
    box: Box,
    path: str = "",
    built_now: Mapping[str, Built] | None = None,
    binary_s: int | None = None,
) -> Verdict:
    """The reason why nothing in this file counts, "none" when some of it may. A write resets such a file."""
    if found is None:
        return Verdict("absent", path or "no sidecar")
    if isinstance(found, Unreadable):
        return Verdict("unreadable", f"{path}: {found.why}" if path else found.why)
    reason, detail = _stale_whole(found, built_now or {}, binary_s) or _foreign(found, box) or ("none", "")
    return Verdict(reason, detail)


def fresh_entries(
    found: Found,
    *,
    box: Box,
    built_now: Mapping[str, Built] | None = None,
    binary_s: int | None = None,
    unfit: Unfit = any_row,
    pins: Pins = NO_PINS,
) -> dict[str, str]:
    """The winners that may be stamped: of a file that counts, of the version pinned, not stale, not empty."""
    whole = whole_file(found, box=box, built_now=built_now, binary_s=binary_s)
    if whole.reason != "none" or not isinstance(found, Document):
        return {}
    return {
        key: suffix
        for key, suffix in found.kernels.items()
        if suffix
        and not other_version(found, pins.get(key))
        and not misfit(found, key, unfit)
        and not changes(found, key, built_now or {}, binary_s)
    }


def unsatisfied(found: Found, demand: Demand, judged: Verdict) -> tuple[str, ...]:
    """The elements of a demand that ``judged`` leaves open, verbatim, a broken pin last."""
    pins = tuple(f"{VERSION_TOKEN}{key}={value}" for key, value in demand.pins)
    if judged.complete:
        return ()
    if judged.reason in ("absent", "unreadable", "foreign_box") or not isinstance(found, Document):
        return (*demand.keys, *pins)
    broken = (pin for pin in demand.pins if other_version(found, pin))
    open_pins = tuple(f"{VERSION_TOKEN}{key}={value}" for key, value in broken)
    gone = frozenset((*judged.missing, *judged.stale))
    return (*(key for key in demand.keys if key in gone), *open_pins)


# --- staleness ------------------------------------------------------------------------------------


def misfit(document: Document, key: str, unfit: Unfit) -> str:
    """Why the recorded winner of a seat cannot serve, such as "names u9, which is no row of this grid"."""
    suffix = document.kernels.get(key, "")
    why = unfit(key, suffix) if suffix else ""
    return f"names {suffix}, {why}" if why else ""


def changes(
    document: Document,
    key: str,
    built_now: Mapping[str, Built],
    binary_s: int | None,
    *,
    elsewhere: bool = False,
) -> tuple[str, ...]:
    """Which inputs of one seat differ from those it was measured with: "source", "header vec.h", …

    Only inputs that both sides know are compared. A seat without digests is judged by time. An optional
    compiler that is absent now changes no winner of another. One that was absent then makes rows that were
    not raced, unless the document was measured ``elsewhere``, on a box that need not have it.
    """
    now = built_now.get(key)
    then = document.built.get(key, {})
    if not any(name in then for name in INPUTS):
        older = binary_s is not None and bool(document.mtime_s) and document.mtime_s < binary_s
        return ("time",) if older else ()
    if now is None:
        return ()
    both = (name for name in INPUTS if name in then and name in now)
    differing = (name for name in both if not _same(name, then[name], now[name], elsewhere))
    return tuple(word for name in differing for word in _input_words(name, then[name], now[name]))


def _same(name: str, then: Json, now: Json, elsewhere: bool = False) -> bool:
    if then == now or name != "compiler" or not (isinstance(then, str) and isinstance(now, str)):
        return then == now
    before, after = then.split("; "), now.split("; ")
    free = (ABSENT,) if elsewhere else ()
    return len(before) == len(after) and all(
        a == b or b == ABSENT or a in free for a, b in zip(before, after, strict=True)
    )


def _input_words(name: str, then: Json, now: Json) -> tuple[str, ...]:
    if isinstance(then, dict) and isinstance(now, dict):
        single = name.removesuffix("s")
        return tuple(f"{single} {k}" for k in sorted({*then, *now}) if then.get(k) != now.get(k)) or (name,)
    readable = isinstance(then, str) and isinstance(now, str) and " " in then and " " in now
    return (f"{name}: {then} -> {now}",) if readable else (name,)


def _stale_whole(
    document: Document, built_now: Mapping[str, Built], binary_s: int | None
) -> tuple[Reason, str] | None:
    """Without digests: older than the binary. With them: none is of today's compilers or protocol. A compiler that
    comes to a tree or leaves it replaces none: it stales the seats that have rows of it."""
    digests = [entry for entry in document.built.values() if any(name in entry for name in INPUTS)]
    if not digests:
        if binary_s is None or not document.mtime_s or document.mtime_s >= binary_s:
            return None
        times = f"the sidecar is of {_date(document.mtime_s)}, the binary of {_date(binary_s)}"
        return "stale_binary", f"{times}: its winners were measured on older code"
    if any(key not in document.built for key in document.kernels):
        return None
    for name in ("compiler", "protocol"):
        then = _each_once(entry.get(name) for entry in digests)
        now = _each_once(entry[name] for entry in built_now.values() if name in entry)
        if now and None not in then and all(_replaced(name, a, b) for a in then for b in now):
            (words,) = _input_words(name, then[0], now[0])[:1]
            shown = f" ({words.removeprefix(f'{name}: ')})" if words != name else ""
            return "stale_binary", f"every entry was measured with another {name}{shown}"
    return None


def _replaced(name: str, then: Json, now: Json) -> bool:
    """Was an entry measured with another protocol, or with a compiler in whose place another one is now?"""
    if name != "compiler" or not (isinstance(then, str) and isinstance(now, str)):
        return then != now
    before, after = (frozenset(words.split("; ")) - {ABSENT} for words in (then, now))
    return bool(before - after and after - before)


def _each_once(values: Iterable[Json]) -> list[Json]:
    return list({str(value): value for value in values}.values())


def _foreign(document: Document, box: Box) -> tuple[Reason, str] | None:
    claimed = document.box
    if not claimed:
        return "unreadable", "the file names no box"
    if match_key(claimed) != match_key(box.identity):
        return "foreign_box", f"measured on {claimed}, this is {box.identity}"
    recorded = document.provenance.get("features")
    if document.provenance.get("applied_box") or not isinstance(recorded, str) or not recorded:
        return None
    known = document.provenance.get("features_known", FIRST_TABLE)
    held = known if type(known) is int and 0 <= known <= len(BY_NAME) else FIRST_TABLE
    gone, new = fingerprint_difference(recorded, box.features, held)
    if not gone and not new:
        return None
    words = (*(f"without {name}" for name in gone), *(f"with {name} besides" for name in new))
    return "foreign_box", f"measured on {claimed} with other features: this is {box.identity} {_some(words)}"


def other_version(document: Document, pin: Pin | None) -> str:
    """Which version a file records and which one the tree has, where they differ; "" without a pin as well."""
    if pin is None:
        return ""
    key, expected = pin
    recorded = version_text(document.provenance.get(key))
    if recorded == expected:
        return ""
    if key not in document.provenance:
        return f"{key}: no such key recorded, expected {expected}"
    return f"{key}: recorded {recorded}, expected {expected}"


def versions_of(keys: Iterable[str], pins: Pins) -> dict[str, str]:
    """What a write of these winners notes: the versions of their scopes, and of no other."""
    return dict(pins[key] for key in keys if key in pins)


def version_text(value: Json) -> str:
    """A recorded version as text: integers decimal, floats cut, anything else but a string empty."""
    match value:
        case str():
            return value
        case bool():
            return ""
        case int() | float():
            return str(int(value))
        case _:
            return ""


def _stale_words(misfits: Mapping[str, str], changed: Mapping[str, tuple[str, ...]]) -> str:
    """Seats that are stale for the same reason are named together."""
    why = {**misfits, **{key: f"{', '.join(what)} changed" for key, what in changed.items()}}
    groups: dict[str, list[str]] = {}
    for key, words in why.items():
        groups.setdefault(words, []).append(key)
    return "; ".join(f"{_some(tuple(keys))} ({words})" for words, keys in groups.items())


def _some(words: tuple[str, ...]) -> str:
    shown = ", ".join(words[:_BOX_ENTRIES])
    return f"{shown} and {len(words) - _BOX_ENTRIES} more" if len(words) > _BOX_ENTRIES else shown


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
