"""The exchange, against a real folder, a real HTTP server and an object store in memory."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tunebuild import exchange, sidecar
from tunebuild.document import Built, Document
from tunebuild.errors import Refused, TunebuildError, UsageError, WorkFailed
from tunebuild.exchange import Here, Hit
from tunebuild.model import Box, Scope
from tunebuild.shared_schema import problems
from tunebuild.upsert import Change, origin_of
from tunebuild.verdict import Demand, verdict

OURS = Box("linux|x86_64||6.8.0|AMD EPYC", "x86_64", frozenset({"avx2", "fma"}))
NEAR = Box("linux|x86_64||6.11.0|Intel Core i7 / Gen 4", "x86_64", frozenset({"avx2"}))
TREE: dict[str, Built] = {key: {"source": f"s-{key}", "compiler": "gcc 12 a"} for key in ("dot", "axpy")}
DEMAND = Demand(("dot", "axpy"), (("kernels_version", "3"),))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "the exchange"


@pytest.fixture
def http(folder: Path) -> Iterator[str]:
    """The folder served over HTTP, as a static site would."""
    pytest.importorskip("aiohttp")
    folder.mkdir(exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def mint(path: Path, box: Box, **winners: str) -> Document:
    """A sidecar as a mint on ``box`` leaves it."""
    change = Change(
        kernels=winners,
        race={
            key: {"winner": row, "rows": {row: {"med_us": 1.5}}, "why": "a > b"}
            for key, row in winners.items()
        },
        built={key: {**TREE.get(key, {"source": "x"}), "source": "theirs"} for key in winners},
        notes={
            "kernels_version": 3,
            "noise": "ok",
            "log": "/home/somebody/log",
            "site": "https://x.invalid/y",
        },
    )
    return sidecar.save(path, change, box=box, binary="/opt/somebody/app").document


def here(tmp_path: Path, box: Box = OURS) -> Here:
    return Here("tunekit", box, tmp_path / "ours.tune.json", TREE)


@pytest.fixture
def pushed(tmp_path: Path, folder: Path) -> Hit:
    """Our own box and its near relation, both listed; the second one verified."""
    exchange.push(str(folder), "tunekit", mint(tmp_path / "n.tune.json", NEAR, dot="u2"), NEAR, DEMAND)
    own = mint(tmp_path / "o.tune.json", OURS, dot="u4", axpy="reference", gone="u1")
    return exchange.push(str(folder), "tunekit", own, OURS, DEMAND)


def verify(folder: Path, listed: str, **changes: Any) -> None:
    for path in folder.rglob("*.json"):
        root = json.loads(path.read_text())
        for row in root.get("hits", []):
            if row["sha"] == listed:
                row.update({"verified": True, **changes})
        path.write_text(json.dumps(root))


def test_lookup_lists_the_own_box_first_then_the_class(folder: Path, pushed: Hit) -> None:
    hits = exchange.lookup(str(folder), "tunekit", OURS)
    assert [(hit.tier, hit.verified, hit.box, hit.kernels, hit.versions) for hit in hits] == [
        ("exact", False, OURS.identity, 3, {"kernels_version": "3"}),
        ("class", False, NEAR.identity, 1, {"kernels_version": "3"}),
    ]
    assert hits[0].sha == pushed.sha


def test_document_is_named_by_its_content(folder: Path, pushed: Hit) -> None:
    assert (folder / "tunekit" / "mints" / f"{pushed.sha[:12]}.tune.json").is_file()


def test_pushing_the_same_content_twice_lists_it_once(tmp_path: Path, folder: Path, pushed: Hit) -> None:
    own = sidecar.read(tmp_path / "o.tune.json")
    assert isinstance(own, Document)
    exchange.push(str(folder), "tunekit", own, OURS, DEMAND)
    assert len(exchange.lookup(str(folder), "tunekit", OURS)) == 2


def test_pick_verified_skips_an_unverified_first_hit_and_any_takes_it(folder: Path, pushed: Hit) -> None:
    hits = exchange.lookup(str(folder), "tunekit", OURS)
    assert exchange.pick(hits, DEMAND) is None
    assert exchange.pick(hits, DEMAND, "any") == hits[0]
    verify(folder, hits[1].sha)
    hits = exchange.lookup(str(folder), "tunekit", OURS)
    assert exchange.pick(hits, DEMAND) == hits[1]
    assert exchange.pick(hits, Demand(("dot",), (("kernels_version", "4"),)), "any") is None


def test_exact_document_is_adopted_and_marked_and_completes_the_demand(
    tmp_path: Path, folder: Path, pushed: Hit
) -> None:
    merged = exchange.pull(str(folder), here(tmp_path), DEMAND, "any")
    assert merged is not None
    found = merged.document
    assert found.kernels == {"dot": "u4", "axpy": "reference"}  # `gone` is no seat of this tree
    assert found.provenance["origin"] == "exchange"
    assert found.provenance["exchange_sha"] == pushed.sha
    assert "applied_box" not in found.provenance
    assert origin_of(found, "dot") == "exchange"
    assert found.built["dot"]["source"] == "s-dot"
    assert found.built["dot"]["origin_box"] == OURS.identity
    donor = found.built["dot"]["origin_built"]
    assert isinstance(donor, dict)
    assert donor["source"] == "theirs"
    assert verdict(found, DEMAND, box=OURS, path="", built_now=TREE).complete


def test_document_of_another_box_is_applied_to_this_one(tmp_path: Path, folder: Path) -> None:
    exchange.push(str(folder), "tunekit", mint(tmp_path / "n.tune.json", NEAR, dot="u2"), NEAR, DEMAND)
    merged = exchange.pull(str(folder), here(tmp_path), DEMAND, "any")
    assert merged is not None
    assert merged.document.provenance["applied_box"] == OURS.identity
    assert merged.document.built["dot"]["origin_box"] == NEAR.identity
    judged = verdict(merged.document, DEMAND, box=OURS, path="", built_now=TREE)
    assert (judged.reason, judged.missing) == ("missing", ("axpy",))


def test_winner_measured_here_outranks_an_adopted_one(tmp_path: Path, folder: Path, pushed: Hit) -> None:
    ours = here(tmp_path)
    own = Change(kernels={"dot": "mine"}, built={"dot": TREE["dot"]}, notes={"kernels_version": 3})
    sidecar.save(ours.path, own, box=OURS)
    merged = exchange.pull(str(folder), ours, DEMAND, "any")
    assert merged is not None
    assert merged.document.kernels == {"dot": "mine", "axpy": "reference"}
    assert (merged.kept, merged.taken) == (("dot",), ("axpy",))


def test_pull_over_a_complete_fresh_sidecar_leaves_the_file_untouched(
    tmp_path: Path, folder: Path, pushed: Hit
) -> None:
    ours = here(tmp_path)
    own = Change(kernels={"dot": "mine", "axpy": "mine"}, built=TREE, notes={"kernels_version": 3})
    sidecar.save(ours.path, own, box=OURS)
    before = ours.path.read_bytes()
    merged = exchange.pull(str(folder), ours, DEMAND, "any")
    assert merged is not None
    assert (merged.taken, merged.document.kernels) == ((), {"dot": "mine", "axpy": "mine"})
    assert ours.path.read_bytes() == before


def test_row_that_cannot_serve_here_is_not_adopted_and_does_not_hold_its_seat(
    tmp_path: Path, folder: Path, pushed: Hit
) -> None:
    def unfit(key: str, suffix: str) -> str:
        return "" if suffix in ("u4", "u1") else "which is no row of this grid"

    ours = replace(here(tmp_path), unfit=unfit)
    own = Change(kernels={"dot": "gone"}, built={"dot": TREE["dot"]}, notes={"kernels_version": 3})
    sidecar.save(ours.path, own, box=OURS)
    merged = exchange.pull(str(folder), ours, DEMAND, "any")
    assert merged is not None
    assert (merged.taken, merged.document.kernels) == (("dot",), {"dot": "u4"})


def test_pull_that_finds_nothing_says_what_is_in_the_way(tmp_path: Path, folder: Path, pushed: Hit) -> None:
    def said(url: Path, demand: Demand = DEMAND, name: str = "tunekit") -> str:
        asking = replace(here(tmp_path), project=name)
        assert exchange.pull(str(url), asking, demand) is None
        return str(exchange.nothing_fits(str(url), asking, demand))

    assert "`--accept any`" in said(folder) and "unverified" in said(folder)
    assert "there is no folder" in said(tmp_path / "elsewhere")
    assert "nothing is listed for other" in said(folder, name="other")
    assert "another version than kernels_version 4" in said(folder, Demand((), (("kernels_version", "4"),)))


def test_exchange_over_http_is_read_like_a_folder(tmp_path: Path, http: str, pushed: Hit) -> None:
    merged = exchange.pull(http, here(tmp_path), DEMAND, "any")
    assert merged is not None
    assert merged.document.kernels["dot"] == "u4"
    assert exchange.lookup(http, "another project", OURS) == ()


def test_object_store_is_written_and_read(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    exchange.push(url, "tunekit", mint(tmp_path / "o.tune.json", OURS, dot="u4"), OURS, DEMAND)
    merged = exchange.pull(url, here(tmp_path), DEMAND, "any")
    assert merged is not None
    assert merged.document.kernels == {"dot": "u4"}


def test_server_that_is_down_is_a_failure_and_no_answer(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(WorkFailed, match="the exchange does not answer"):
        exchange.lookup("http://127.0.0.1:9", "tunekit", OURS)


def test_server_error_is_a_failure_and_not_an_empty_listing(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")

    class Broken(Quiet):
        def do_GET(self) -> None:
            self.send_error(500)

        do_HEAD = do_GET  # noqa: N815 - the server's own name

    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(WorkFailed, match="the exchange does not answer"):
            exchange.lookup(f"http://127.0.0.1:{server.server_port}", "tunekit", OURS)
    finally:
        server.shutdown()
        server.server_close()


def _tamper(data: dict[str, Any]) -> None:
    data["kernels"]["dot"] = "evil"


def _strip_version(data: dict[str, Any]) -> None:
    data["provenance"]["kernels_version"] = 4


def _markup(data: dict[str, Any]) -> None:
    data["provenance"]["note"] = "<b>"


def _other_box(data: dict[str, Any]) -> None:
    data["provenance"]["box"] = NEAR.identity


@pytest.mark.parametrize(
    ("edit", "relist", "why"),
    [
        (_tamper, False, "its content does not have the listed hash"),
        (_strip_version, True, "kernels_version is 4, this tree has 3"),
        (_markup, True, "provenance.note holds '<b>'"),
        (_other_box, True, "the exchange says linux"),
        (None, False, "and does not have it"),
    ],
)
def test_document_that_fails_a_check_is_refused_without_a_write(
    tmp_path: Path,
    folder: Path,
    pushed: Hit,
    edit: Callable[[dict[str, Any]], None] | None,
    relist: bool,
    why: str,
) -> None:
    import hashlib

    path = folder / "tunekit" / "mints" / f"{pushed.sha[:12]}.tune.json"
    data = json.loads(path.read_text())
    path.unlink()
    if edit:
        edit(data)
        text = json.dumps(data)
        sha = hashlib.sha256(text.encode()).hexdigest() if relist else pushed.sha
        path.with_name(f"{sha[:12]}.tune.json").write_text(text)
        verify(folder, pushed.sha, sha=sha)
    with pytest.raises(Refused, match=why):
        exchange.pull(str(folder), here(tmp_path), DEMAND, "any")
    assert not (tmp_path / "ours.tune.json").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"hits": 3}', '{"hits": [{"sha": "../../x", "box": "b"}]}', "[" * 99999]
)
def test_index_that_is_nonsense_is_a_failure(tmp_path: Path, folder: Path, pushed: Hit, text: str) -> None:
    for path in folder.rglob("box/*.json"):
        path.write_text(text)
    with pytest.raises(WorkFailed, match="is no index of an exchange"):
        exchange.lookup(str(folder), "tunekit", OURS)


# --- what may leave -------------------------------------------------------------------------------


def test_paths_are_stripped_and_plain_values_and_winners_survive(tmp_path: Path) -> None:
    root = exchange.shareable(mint(tmp_path / "n.tune.json", NEAR, dot="u2"), NEAR)
    provenance = root["provenance"]
    assert isinstance(provenance, dict)
    assert not {"binary", "log", "site"} & set(provenance)
    assert provenance["noise"] == "ok"
    assert provenance["box"] == NEAR.identity  # its brand holds a slash, and is no path
    assert root["kernels"] == {"dot": "u2"}
    assert root["race"] == {"dot": {"winner": "u2", "rows": {"u2": {"med_us": 1.5}}}}
    assert problems(root) == ()


def test_document_that_was_adopted_or_measured_elsewhere_is_never_sent(
    tmp_path: Path, folder: Path, pushed: Hit
) -> None:
    merged = exchange.pull(str(folder), here(tmp_path), DEMAND, "any")
    assert merged is not None
    with pytest.raises(Refused, match="came from the exchange") as caught:
        exchange.shareable(merged.document, OURS, command="tunebuild mint --app tool")
    assert caught.value.fix.startswith("run a full `tunebuild mint --app tool`, which replaces")
    with pytest.raises(Refused, match="was measured on"):
        exchange.shareable(mint(tmp_path / "n.tune.json", NEAR, dot="u2"), OURS)
    applied = replace(
        merged.document, provenance={**merged.document.provenance, "applied_box": OURS.identity}
    )
    with pytest.raises(Refused, match="not here"):
        exchange.shareable(applied, OURS)
    with pytest.raises(Refused, match="nothing that was measured here"):
        exchange.shareable(Document(provenance={"box": OURS.identity}), OURS)


def test_entries_of_a_class_profile_stay_at_home(tmp_path: Path) -> None:
    path = tmp_path / "p.tune.json"
    sidecar.save(
        path, Change(kernels={"dot": "p"}, built={"dot": TREE["dot"]}, origin="profile:x86-avx2"), box=OURS
    )
    document = sidecar.save(path, Change(kernels={"axpy": "u2"}), box=OURS).document
    assert exchange.shareable(document, OURS)["kernels"] == {"axpy": "u2"}


def test_seats_that_left_the_tree_stay_at_home_and_hinder_nothing(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "g.tune.json"
    adopted = Change(kernels={"gone": "e"}, built={"gone": {"source": "x"}}, notes={"origin": "exchange"})
    sidecar.save(path, replace(adopted, origin="exchange"), box=OURS)
    document = sidecar.save(
        path, Change(kernels={"dot": "u4"}, built={"dot": TREE["dot"]}), box=OURS
    ).document
    assert document.kernels == {"dot": "u4", "gone": "e"}
    with pytest.raises(Refused, match="came from the exchange"):
        exchange.shareable(document, OURS)
    assert exchange.shareable(document, OURS, TREE)["kernels"] == {"dot": "u4"}
    assert exchange.push(str(folder), "tunekit", document, OURS, DEMAND, TREE).kernels == 1


# --- resolvers ------------------------------------------------------------------------------------


def _scope(tmp_path: Path, resolver: str) -> Scope:
    return Scope("s", "m", (), (), resolver=resolver, root=tmp_path)


def test_resolver_of_a_scope_may_be_the_exchange(tmp_path: Path, folder: Path, pushed: Hit) -> None:
    found = exchange.resolver(_scope(tmp_path, f"exchange:{folder}"), here(tmp_path), "any")
    assert found is not None
    assert found("s", "ours.tune.json", "dot;axpy;@version:kernels_version=3") is True
    assert found("s", "ours.tune.json", "dot;@version:kernels_version=4") is False


def test_resolver_of_a_scope_may_be_a_function_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(
        "def find(scope, path, demand):\n    return (scope, path, demand) == ('s', 'p', 'd')\n"
    )
    found = exchange.resolver(_scope(tmp_path, "r.py:find"), here(tmp_path))
    assert found is not None
    assert found("s", "p", "d") is True
    with pytest.raises(UsageError, match="has no function other"):
        exchange.resolver(_scope(tmp_path, "r.py:other"), here(tmp_path))
    assert exchange.resolver(_scope(tmp_path, ""), here(tmp_path)) is None


def test_resolver_of_a_scope_may_be_an_entry_point_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "site/fleet_tunes-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet-tunes\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[tunebuild.resolvers]\nfleet = fleet_tunes:find\nno = fleet_tunes:TEXT\n"
    )
    (tmp_path / "site/fleet_tunes.py").write_text(
        "TEXT = 'x'\ndef find(scope, path, demand):\n    return (scope, path, demand) == ('s', 'p', 'd')\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = exchange.resolver(_scope(tmp_path, "entry:fleet"), here(tmp_path))
    assert found is not None
    assert found("s", "p", "d") is True
    with pytest.raises(UsageError, match="no installed package has the resolver other") as caught:
        exchange.resolver(_scope(tmp_path, "entry:other"), here(tmp_path))
    assert caught.value.fix == "installed: fleet, no"
    with pytest.raises(UsageError, match="is no function"):
        exchange.resolver(_scope(tmp_path, "entry:no"), here(tmp_path))


def test_url_of_no_known_kind_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(TunebuildError, match="cannot open nonsense://x"):
        exchange.lookup("nonsense://x", "p", OURS)
