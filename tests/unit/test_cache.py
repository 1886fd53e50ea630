from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tunebuild import cache, keys

KEY = keys.digest(b"one")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cache.Store:
    monkeypatch.setattr(cache, "_digests", {})
    monkeypatch.setattr(cache, "_sets", {})
    return cache.Store(tmp_path / "cache")


def put(store: cache.Store, key: str, data: bytes, root: Path, **more: object) -> str:
    return cache.publish(store, key, [cache.File("row.o", data)], root=root, **more)  # type: ignore[arg-type]


def entry_file(store: cache.Store, key: str) -> Path:
    assert store.root is not None
    return store.root / "entries" / key[:2] / key


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process begins."""
    monkeypatch.setattr(cache, "_digests", {})
    monkeypatch.setattr(cache, "_sets", {})


def test_an_entry_comes_back_with_bytes_names_and_modes(store: cache.Store, tmp_path: Path) -> None:
    files = [
        cache.File("lib.so", b"\x7fELF", 0o755),
        cache.File("lib.h", b"int f(void);\n"),
        cache.File("empty", b""),
    ]
    assert cache.publish(store, KEY, files, root=tmp_path, note={"row": "u4"}) == ""
    entry = cache.lookup(store, KEY, tmp_path)
    assert entry is not None and entry.files == tuple(files) and entry.note == {"row": "u4"}
    cache.fetch(entry, tmp_path / "out", {"lib.h": tmp_path / "include/lib.h"})
    assert (tmp_path / "out/lib.so").read_bytes() == b"\x7fELF"
    assert (tmp_path / "out/lib.so").stat().st_mode & 0o100
    assert (tmp_path / "include/lib.h").read_text() == "int f(void);\n"


def test_an_unknown_key_is_a_miss_and_no_damage(store: cache.Store, tmp_path: Path) -> None:
    assert cache.lookup(store, KEY, tmp_path) is None
    assert cache.info(store).damaged == 0


def test_an_entry_that_is_damaged_at_any_place_is_a_miss_and_counted(
    store: cache.Store, tmp_path: Path
) -> None:
    chance = random.Random(7)
    path, served = entry_file(store, KEY), 0
    for round_ in range(200):
        put(store, KEY, bytes(range(200)), tmp_path)
        data = bytearray(path.read_bytes())
        match round_ % 4:
            case 0:
                del data[chance.randrange(len(data)) :]
            case 1:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 2:
                data = bytearray(len(data))
            case _:
                data += b"more"
        path.write_bytes(data)
        served += cache.lookup(store, KEY, tmp_path) is not None
    assert served == 0 and cache.info(store).damaged == 200


def test_swapped_linked_and_odd_entries_are_misses(store: cache.Store, tmp_path: Path) -> None:
    other = keys.digest(b"two")
    put(store, KEY, b"one", tmp_path)
    put(store, other, b"two", tmp_path)
    one, two, aside = entry_file(store, KEY), entry_file(store, other), tmp_path / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    assert cache.lookup(store, KEY, tmp_path) is None and cache.lookup(store, other, tmp_path) is None
    put(store, other, b"two", tmp_path)
    one.parent.mkdir(exist_ok=True)
    one.symlink_to(two)
    assert cache.lookup(store, KEY, tmp_path) is None
    one.mkdir()
    assert cache.lookup(store, KEY, tmp_path) is None
    put(store, KEY, b"one", tmp_path)
    assert cache.lookup(store, KEY, tmp_path) is not None


def test_an_entry_that_names_a_file_elsewhere_is_refused(store: cache.Store, tmp_path: Path) -> None:
    cache.publish(store, KEY, [cache.File("../../evil", b"x")], root=tmp_path)
    assert cache.lookup(store, KEY, tmp_path) is None and cache.info(store).damaged == 1


def test_a_header_outside_the_key_must_still_hold(
    store: cache.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, project = tmp_path / "usr/x.h", tmp_path / "p"
    system.parent.mkdir()
    project.mkdir()
    system.write_text("#define A 1\n")
    (project / "deep.h").write_text("1\n")
    assert put(store, KEY, b"o", project, read=[str(system), "deep.h"]) == ""
    assert cache.lookup(store, KEY, project) is not None
    moved = tmp_path / "moved"
    moved.mkdir()
    assert cache.lookup(store, KEY, moved) is None, "the other checkout has no deep.h"
    (moved / "deep.h").write_text("1\n")
    forget(monkeypatch)
    assert cache.lookup(store, KEY, moved) is not None
    system.write_text("#define A 2\n")
    forget(monkeypatch)
    assert cache.lookup(store, KEY, project) is None
    assert cache.info(store).damaged == 0


def test_a_source_that_changed_while_it_compiled_is_not_stored(store: cache.Store, tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int a;")
    before = cache.file_digest(source)
    source.write_text("int b;")
    assert "a.c changed" in put(store, KEY, b"o", tmp_path, sources={source: before})
    assert cache.lookup(store, KEY, tmp_path) is None


def test_a_file_rewritten_within_its_clock_tick_is_read_again(store: cache.Store, tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_text("1")
    first = cache.file_digest(path)
    facts = path.stat()
    path.write_text("2")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert cache.file_digest(path) != first


def test_collection_removes_what_was_used_longest_ago(store: cache.Store, tmp_path: Path) -> None:
    names = [keys.digest(str(i).encode()) for i in range(10)]
    for i, name in enumerate(names):
        put(store, name, bytes(1000), tmp_path)
        os.utime(entry_file(store, name), (1000.0 * i, 1000.0 * i))
    assert cache.lookup(store, names[0], tmp_path) is not None, "a hit renews it"
    done = cache.gc(store, 5000)
    assert done.entries and done.kept_bytes <= 5000 and cache.info(store).entries == done.kept
    assert cache.lookup(store, names[0], tmp_path) is not None
    assert cache.lookup(store, names[1], tmp_path) is None


def test_collection_sweeps_old_leftovers_only(store: cache.Store, tmp_path: Path) -> None:
    put(store, KEY, b"o", tmp_path)
    shelf = entry_file(store, KEY).parent
    old, new = shelf / ".a.1.tmp", shelf / ".b.1.tmp"
    old.touch()
    new.touch()
    os.utime(old, (1.0, 1.0))
    cache.gc(store)
    assert not old.exists() and new.exists() and cache.info(store).entries == 1


def test_a_cache_that_cannot_be_written_says_why_and_serves_reads(tmp_path: Path) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file stands here")
    store = cache.Store(blocked)
    assert "cannot write the cache" in put(store, KEY, b"o", tmp_path)
    assert cache.lookup(store, KEY, tmp_path) is None
    assert cache.info(store).entries == 0 and cache.gc(store).entries == 0


def test_location_follows_the_environment(tmp_path: Path) -> None:
    assert cache.store({"TUNEBUILD_CACHE": "off"}).root is None
    assert cache.store({"TUNEBUILD_CACHE": str(tmp_path)}).root == tmp_path
    found = cache.store({}).root
    assert found is not None and found.name == "tunebuild"
    off = cache.Store(None)
    assert "off" in put(off, KEY, b"", tmp_path) and cache.lookup(off, KEY, tmp_path) is None
    assert cache.info(off).location == ""


WORKER = """
import sys, time
from pathlib import Path
from tunebuild import cache, keys
store, root, seed = cache.Store(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
end = time.monotonic() + 1.0
while time.monotonic() < end:
    for i in range(40):
        n = (i * 7 + seed) % 40
        name = keys.digest(str(n).encode())
        entry = cache.lookup(store, name, root)
        if entry is None:
            assert cache.publish(store, name, [cache.File("o", bytes([n]) * 999)], root=root) == ""
        else:
            assert entry.files[0].data == bytes([n]) * 999
    if seed == 0:
        cache.gc(store, 20000)
"""


def test_builders_and_a_collector_at_once_never_see_a_wrong_entry(tmp_path: Path) -> None:
    store = cache.Store(tmp_path / "cache")
    running = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(store.root), str(tmp_path), str(seed)])
        for seed in range(4)
    ]
    assert [child.wait() for child in running] == [0] * 4
    assert cache.info(store).damaged == 0 and cache.info(store).entries <= 40
    assert not list((tmp_path / "cache").glob("*/*/.*.tmp"))


def test_due_collection_runs_once_an_hour(store: cache.Store, tmp_path: Path) -> None:
    put(store, KEY, b"o", tmp_path)
    assert cache.gc_if_due(store) is not None
    assert cache.gc_if_due(store) is None
    assert store.root is not None
    past = time.time() - 2 * cache.COLLECT_AFTER_S
    os.utime(store.root / "collected", (past, past))
    assert cache.gc_if_due(store) is not None
