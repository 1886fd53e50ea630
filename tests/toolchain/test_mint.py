"""Whole mints on this machine. Which row wins is the box's affair; what is asserted holds on any box."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Project

PROJECTS = Path(__file__).parent.parent / "projects"
LOUD = {"TUNEBUILD_NOISE_OVERRIDE": "1"}  # other tests run beside these
QUICK = """
[measure]
settle_s = 0.0
probe_windows = 3
probe_window_ms = 2.0
max_rounds = 3
"""

pytestmark = pytest.mark.cc


@pytest.fixture
def quick(project: Project) -> Project:
    text = (project.root / "tune.toml").read_text()
    (project.root / "tune.toml").write_text(text + QUICK)
    return project


def example(name: str, tmp_path: Path) -> Project:
    root, home = tmp_path / name, tmp_path / "home"
    shutil.copytree(PROJECTS / name, root)
    home.mkdir()
    return Project(root, home, home / "cache")


def sidecar(project: Project) -> dict[str, Any]:
    (path,) = project.root.glob("*.tune.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def status(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.run("status", "--json").stdout.splitlines()[-1])
    return found


def test_a_mint_records_every_seat_and_builds_with_the_winners(quick: Project) -> None:
    done = quick.run("mint", **LOUD)
    events = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("@tune ")]
    assert events[0] == "plan" and events.count("begin") == events.count("end") == 1
    record = sidecar(quick)
    winner = record["kernels"]["dot_f32"]
    assert record["race"]["dot_f32"]["winner"] == winner
    assert record["provenance"]["noise"] in ("ok", "noisy", "overridden")
    assert {"source", "flags", "compiler", "workload", "protocol"} <= record["built"]["dot_f32"].keys()
    found = status(quick)
    assert found["scopes"][0]["complete"] is True
    assert (found["families"][0]["suffix"], found["families"][0]["source"]) == (winner, "manifest")
    why = quick.run("why", "dot_f32").stdout
    assert winner in why and "margin" in why


def test_after_a_mint_a_comment_stales_nothing_and_code_stales_its_family(quick: Project) -> None:
    quick.run("mint", **LOUD)
    template = "kernels/templates/dot_f32/kernel.c.j2"
    quick.edit(template, "    float sum = 0.0f;", "    float sum = 0.0f; /* the tail */")
    assert status(quick)["scopes"][0]["complete"] is True
    quick.edit(template, "    float sum = 0.0f;", "    float sum = -0.0f;")
    scope = status(quick)["scopes"][0]
    assert (scope["reason"], scope["complete"]) == ("stale_binary", False)
    assert "dot_f32" in scope["detail"] and "source" in scope["detail"]
    assert quick.run("mint", "--stale", "--dry-run").stdout.split() == ["dot_f32"]


def test_a_stale_mint_races_what_changed_and_leaves_the_rest(quick: Project) -> None:
    quick.run("add", "family", "dot_again")
    quick.run("mint", "--only", "=dot_f32", **LOUD)
    before = sidecar(quick)["built"]["dot_f32"]
    assert quick.run("mint", "--stale", "--dry-run").stdout.split() == ["dot_again"]
    quick.run("mint", "--stale", **LOUD)
    after = sidecar(quick)
    assert set(after["kernels"]) == {"dot_f32", "dot_again"}
    assert after["built"]["dot_f32"] == before


def test_a_loud_box_is_refused_and_nothing_changes_but_a_stub(quick: Project) -> None:
    quick.edit("tune.toml", "settle_s = 0.0", "settle_s = 0.0\nceiling_cv_pct = 0.0\nnote_cv_pct = 0.0")
    done = quick.run("mint", code=3)
    assert "too loud" in done.stderr and "TUNEBUILD_NOISE_OVERRIDE" in done.stderr
    assert "@tune abort reason=noise" in done.stdout
    assert not list(quick.root.glob("*.tune.json"))
    (stub,) = (quick.home / "history").glob("*.FAILED.json")
    assert "too loud" in json.loads(stub.read_text())["note"]
    quick.run("mint", **LOUD)
    assert sidecar(quick)["provenance"]["noise"] == "overridden"


def test_a_threshold_over_the_ceiling_takes_the_ceiling_along(quick: Project) -> None:
    quick.edit("tune.toml", "settle_s = 0.0", "settle_s = 0.0\nceiling_cv_pct = 0.0\nnote_cv_pct = 0.0")
    quick.run("mint", TUNEBUILD_NOISE_CV="1e6")
    assert sidecar(quick)["provenance"]["noise"] == "ok"


def test_a_control_file_that_comes_during_a_race_lets_its_family_end_and_stops_the_next(
    quick: Project,
) -> None:
    quick.run("add", "family", "dot_again")
    control = quick.root / "stop"
    with subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "mint"], cwd=quick.root,
        env=quick.environ({**LOUD, "TUNEBUILD_CONTROL": str(control)}),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("@tune begin"):
                control.touch()
    kinds = [line.split()[1] for line in said if line.startswith("@tune ")]
    assert (
        process.returncode == 3 and kinds.count("begin") == kinds.count("end") == 1 and kinds[-1] == "abort"
    )
    assert "reason=control at=dot_" in said[-1] and not list(quick.root.glob("*.tune.json"))


def test_the_control_file_stops_before_the_next_family_and_writes_nothing(quick: Project) -> None:
    control = quick.root / "stop"
    control.touch()
    done = quick.run("mint", code=3, TUNEBUILD_CONTROL=str(control), **LOUD)
    assert "@tune abort reason=control at=dot_f32" in done.stdout
    assert not list(quick.root.glob("*.tune.json"))


def test_an_interrupt_writes_nothing_and_ends_with_its_signal(quick: Project) -> None:
    quick.edit("tune.toml", "max_rounds = 3", "max_rounds = 500\nbudget_doses = 4000.0\nseat_z = 1000.0")
    with subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "mint"], cwd=quick.root, env=quick.environ(LOUD),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        while not process.stdout.readline().startswith("@tune begin"):
            pass
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        words = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted" in words and "Traceback" not in words
    assert not list(quick.root.glob("*.tune.json"))


def test_forced_features_refuse_a_mint(quick: Project) -> None:
    done = quick.run("mint", code=3, TUNEBUILD_FORCE_FEATURES="amx-tile", **LOUD)
    assert "TUNEBUILD_FORCE_FEATURES" in done.stderr
    assert not list(quick.root.glob("*.tune.json"))


def test_a_recorded_mint_is_decided_again_bit_for_bit_from_its_recording(quick: Project) -> None:
    from tunebuild import noise, racetable, validate
    from tunebuild.drive import Replay, declared, drive, race_heat
    from tunebuild.race import closed

    quick.edit("tune.toml", "isa_avx2_u4; isa_base_u4; reference", "isa_base_u1")  # which others beat
    quick.run("mint", "--record", "race.jsonl", **LOUD)
    lines = (quick.root / "race.jsonl").read_text().splitlines()
    heat, measure, bar = declared(lines, "dot_f32")
    record = sidecar(quick)
    seed = int(record["provenance"]["seed"])

    def probed(tag: str) -> noise.Reading:
        asking = noise.probe(tag, measure, noise.threshold_pct(measure), seed, heat.clock_step_ns)
        return drive(Replay(lines, f"probe {tag}"), asking)

    readings = [probed("start"), probed("end")]
    assert "; ".join(map(str, readings)) == record["provenance"]["noise_probes"]
    assert noise.bar(readings[:1], measure) == bar
    outcome, found = race_heat(Replay(lines, "dot_f32"), heat, measure, bar), None
    if outcome.winner != outcome.control:
        asking = validate.validate(outcome, measure, bar, seed ^ 0x5EED)
        found = drive(Replay(lines, "validate dot_f32"), asking)
        outcome = validate.settle(outcome, found)
    (outcome,) = closed([outcome], measure, noise.floor_pct(readings, measure))
    table = json.loads(json.dumps(racetable.table(outcome, found, seed)))
    assert table == record["race"]["dot_f32"]


def test_a_second_mint_keeps_a_copy_and_says_what_changed(quick: Project) -> None:
    quick.run("mint", **LOUD)
    quick.run("mint", **LOUD)
    assert len(list(quick.root.glob("*.tune.json.bak"))) == 1
    times = [line.split()[0] for line in quick.run("history").stdout.splitlines()]
    assert len(times) == 2
    assert quick.run("diff").stdout.strip() == quick.run("diff", *times).stdout.strip() != ""
    assert "as `tunebuild history` prints it" in quick.run("diff", "yesterday", times[1], code=2).stderr
    namesake = Project(quick.root.parent / "namesake", quick.home, quick.cache)
    shutil.copytree(quick.root, namesake.root, ignore=shutil.ignore_patterns("build", "generated"))
    assert not namesake.run("history").stdout.strip()
    (quick.root / "tune.toml").unlink()  # moved away: what was minted there is the other's history
    assert len(namesake.run("history").stdout.splitlines()) == 2


@pytest.mark.parametrize("name", ["{app}", "{app}.bak"])
def test_a_sidecar_that_cannot_be_written_is_said_before_the_race(quick: Project, name: str) -> None:
    path = quick.root / f"{status(quick)['app']}.tune.json"
    if name.endswith(".bak"):
        path.write_text("{}")
    path.with_name(name.format(app=path.name)).mkdir()
    done = quick.run("mint", code=1, **LOUD)
    assert f"{name.format(app=path.name)}: it is a folder" in done.stderr
    assert "@tune begin" not in done.stdout


def test_a_filter_that_names_no_seat_is_said_before_anything_is_built(quick: Project) -> None:
    done = quick.run("mint", "--only", "zzz", code=2, **LOUD)
    assert "no seat's name holds a token of 'zzz'" in done.stderr and "the seats are: dot_f32" in done.stderr
    assert not (quick.root / "build/tune").exists() and not (quick.root / "build/.tuning.lock").exists()


def test_a_pinned_row_is_gated_by_a_full_mint_and_not_raced(quick: Project) -> None:
    quick.edit("tune.toml", "[family.dot_f32]\n", '[family.dot_f32]\npin = "isa_base_u2"\n')
    quick.run("build")
    assert "ungated" in quick.run("status").stdout
    done = quick.run("mint", **LOUD)
    assert "@tune begin" not in done.stdout
    assert "ungated" not in quick.run("status").stdout


def test_a_winner_set_by_hand_is_named_so_and_does_not_ship(quick: Project) -> None:
    quick.run("mint", **LOUD)
    (path,) = quick.root.glob("*.tune.json")
    record = json.loads(path.read_text())
    raced = record["kernels"]["dot_f32"]
    other = "isa_base_u1" if raced != "isa_base_u1" else "isa_base_u2"
    record["kernels"]["dot_f32"] = other
    del record["digest"]
    path.write_text(json.dumps(record))
    words = f"set by hand in the sidecar, not measured: its race chose {raced}"
    why = " ".join(quick.run("why", "dot_f32").stdout.split())
    assert why.startswith(f"dot_f32 runs {other}: {words} from:") and "margin" not in why
    assert words in " ".join(quick.run("status").stdout.split())
    done = quick.run("release", "--quick", code=3, **LOUD)
    assert "set by hand, not measured: dot_f32" in done.stdout + done.stderr
    assert "tunebuild mint --only =dot_f32" in done.stdout + done.stderr
    assert not (quick.root / "dist").exists()


def test_a_winner_set_by_hand_without_its_race_is_named_so_and_does_not_ship(quick: Project) -> None:
    quick.run("mint", **LOUD)
    (path,) = quick.root.glob("*.tune.json")
    record = json.loads(path.read_text())
    other = "isa_base_u1" if record["kernels"]["dot_f32"] != "isa_base_u1" else "isa_base_u2"
    record["kernels"]["dot_f32"] = other
    del record["digest"], record["race"]["dot_f32"]
    path.write_text(json.dumps(record))
    words = "set by hand in the sidecar, not measured: no race decided it"
    assert " ".join(quick.run("why", "dot_f32").stdout.split()).startswith(f"dot_f32 runs {other}: {words}")
    done = quick.run("release", "--quick", code=3, **LOUD)
    assert "set by hand, not measured: dot_f32" in done.stdout + done.stderr
    assert "tunebuild mint --only =dot_f32" in done.stdout + done.stderr
    quick.run("mint", "--only", "=dot_f32", **LOUD)
    assert "set by hand" not in quick.run("why", "dot_f32").stdout


def test_a_companions_winner_set_by_hand_neither_ships_nor_is_exported(tmp_path: Path) -> None:
    project = example("packed", tmp_path)
    project.edit("tune.toml", "[family.matvec]\n", '[scope.packed]\ndefaults = "profiles"\n[family.matvec]\n')
    project.run("mint", **LOUD)
    path = project.root / "packed.tune.json"
    record = json.loads(path.read_text())
    raced = record["kernels"]["rowsum"]
    record["kernels"]["rowsum"] = raced[:-1] + ("1" if raced.endswith("2") else "2")
    del record["digest"]
    path.write_text(json.dumps(record))
    fix = "run `tunebuild mint --only =matvec.few,=matvec.many`"
    done = project.run("release", "--quick", code=3, **LOUD)
    assert "failed: winners: set by hand, not measured: rowsum" in done.stderr and fix in done.stderr
    refused = project.run("profile", "export", code=3)
    assert "rowsum was set by hand, not by its race" in refused.stderr and fix in refused.stderr
    assert not (project.root / "dist").exists() and not (project.root / "profiles").exists()
    both = project.run("mint", "--dry-run", "--only", "=matvec.few").stdout.split()
    assert both == ["matvec.few", "matvec.many"], "seats share a layout"
    project.run("mint", "--only", "=matvec.few,=matvec.many", **LOUD)
    project.run("release", "--quick", **LOUD)


def test_a_build_says_which_winner_went_stale_by_what(quick: Project) -> None:
    quick.run("mint", **LOUD)
    quick.edit("tune.toml", '"-O3"', '"-O2"')
    said = quick.run("build").stderr
    assert re.search(r"dot_f32: \w+ by the fallback; the recorded \w+ is stale: flags", said)
    assert "run `tunebuild mint --stale`" in said
    assert "run `tunebuild mint --stale`" in quick.run("status").stdout


def test_twelve_bad_rows_are_named_and_the_good_ones_are_raced(tmp_path: Path) -> None:
    project = example("bad_rows", tmp_path)
    project.run("mint", **LOUD)
    record = sidecar(project)
    race = record["race"]["ride"]
    reasons = {suffix.removeprefix("how_"): words for suffix, words in race["rejections"].items()}
    expected = {
        "segfault": "SIGSEGV",
        "illegal": "SIGILL",
        "abort": "SIGABRT",
        "loop": "does not return",
        "exit": "exit",
        "wrong": "wrong result",
        "wrong_at_31": "n=31",
        "write_past": "past the end",
        "read_past": "read past",
        "const": "const input",
        "flush_denormals": "MXCSR",
        "smash": "SIG",
    }
    assert reasons.keys() == expected.keys()
    for name, words in expected.items():
        assert words in reasons[name], f"{name}: {reasons[name]}"
    assert record["kernels"]["ride"] in ("how_plain", "how_twice")
    assert {"how_plain", "how_twice", "reference"} >= race["rows"].keys() > {"reference"}


def test_rows_that_remember_or_are_wrong_at_one_size_are_named_and_none_is_crowned(tmp_path: Path) -> None:
    project = example("cheats", tmp_path)
    project.run("mint", **LOUD)
    record = sidecar(project)
    reasons = {
        suffix.removeprefix("how_"): words for suffix, words in record["race"]["settle"]["rejections"].items()
    }
    at_the_gate = {
        "peeks_after0": "called again on the same data",
        "keeps_after0": "second data at the same addresses",
        "errno_after0": "called again on the same data",
        "heap_after0": "wrong result",
        "drifts_after0": "wrong result",
        "borrows_after0": "const input",
    }
    in_the_race = {
        "peeks_after150": "wrong result",
        "keeps_after150": "wrong result",
        "samples_after0": "wrong result",
        "samples_after150": "wrong result",
        "errno_after150": "wrong result",
        "heap_after150": "wrong result",
        "drifts_after150": "wrong result",
        "borrows_after150": "const input",
        "compares_after0": "on data that it has not met",
        "compares_after150": "on data that it has not met",
    }
    assert reasons.keys() == {"thread_after0", *at_the_gate, *in_the_race}
    assert "writable data in .tbss" in reasons["thread_after0"]
    for stage, expected in (("gate: ", at_the_gate), ("race: ", in_the_race)):
        for name, words in expected.items():
            assert reasons[name].startswith(stage) and words in reasons[name], f"{name}: {reasons[name]}"
    assert "; replay: tunebuild test settle --row how_drifts_after150 " in reasons["drifts_after150"]
    assert record["kernels"]["settle"] in ("how_plain_after0", "how_twice_after0", "reference")
    (large,) = record["race"]["settle_many"]["rejections"].values()
    assert large.startswith("gate: wrong result: element 4711 of `y` is 0") and "at n=600000" in large
    assert record["kernels"]["settle_many"] in ("how_plain", "reference")


def test_rows_of_equal_machine_code_are_raced_once_and_reported_as_one(quick: Project) -> None:
    quick.edit("tune.toml", '["base", "avx2"]', '["base"]')
    quick.edit("tune.toml", 'fallback = "isa_avx2_u4; ', 'fallback = "')
    template = "kernels/templates/dot_f32/kernel.c.j2"
    quick.edit(template, "{% set lanes", "{% set u = [u, 4] | min %}{% set lanes")
    quick.run("mint", **LOUD)
    race = sidecar(quick)["race"]["dot_f32"]
    assert race["same_code"] == {"isa_base_u8": "isa_base_u4"}
    assert {"isa_base_u4"} <= race["rows"].keys() and "isa_base_u8" not in race["rows"]
    if race["winner"] == "isa_base_u4":
        assert "same code:  isa_base_u8" in quick.run("why", "dot_f32").stdout


def test_a_family_without_a_row_that_passes_records_the_reference_and_fails(tmp_path: Path) -> None:
    project = example("bad_rows", tmp_path)
    text = (project.root / "tune.toml").read_text()
    text = re.sub(r"how = \[.*?\]", 'how = ["wrong", "abort"]', text, flags=re.S).replace(
        "how_plain", "reference"
    )
    (project.root / "tune.toml").write_text(text)
    project.run("mint", code=1, **LOUD)
    assert sidecar(project)["kernels"] == {"ride": "reference"}
    assert status(project)["families"][0]["source"] == "reference"


def test_seats_share_a_layout_and_the_entry_dispatches(tmp_path: Path) -> None:
    project = example("packed", tmp_path)
    project.run("mint", **LOUD)
    record = sidecar(project)
    assert {"matvec.few", "matvec.many", "rowsum"} == record["kernels"].keys()
    tiles = {record["kernels"][key].split("_")[0] for key in record["kernels"]}
    assert len(tiles) == 1, f"rows of two layouts: {record['kernels']}"
    found = status(project)
    assert [row["family"] for row in found["families"]] == ["matvec.few", "matvec.many"]
    library = ctypes.CDLL(os.fspath(project.root / "build/normal/libpacked.so"))
    m, k = 9, 5
    matrix = (ctypes.c_float * (m * k))(*range(m * k))
    packed = (ctypes.c_float * (16 * k))()
    size = ctypes.c_size_t
    library.matvec_pack(matrix, packed, size(m), size(k))
    for n in (1, 8):
        vectors = (ctypes.c_float * (n * k))(*([1.0] * (n * k)))
        out = (ctypes.c_float * (n * m))()
        library.matvec(packed, vectors, out, size(m), size(n), size(k))
        assert list(out[:m]) == [float(sum(range(i * k, i * k + k))) for i in range(m)]


def test_a_row_that_dies_in_the_race_of_one_seat_is_not_raced_for_the_next(tmp_path: Path) -> None:
    project = example("packed", tmp_path)
    template = project.root / "kernels/templates/matvec/kernel.c.j2"
    counting = """#include <stdlib.h>
#include <sys/mman.h>
{{ prototype }}
{
{% if mr == 8 and u == 2 %}
    size_t *calls = (size_t *)0x5a0000000000;
    mmap(calls, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (++*calls > 300) abort();
{% endif %}
"""
    template.write_text(template.read_text().replace("{{ prototype }}\n{\n", counting, 1))
    project.edit("tune.toml", "-std=c17", "-std=gnu17")
    project.run("mint", **LOUD)
    race = sidecar(project)["race"]
    (died,) = race["matvec.few"]["rejections"].values()
    assert died.startswith("race: SIGABRT (workload one); replay: tunebuild test matvec --row mr8_u2 --case ")
    assert "mr8_u2" not in race["matvec.many"]["rows"] and "rejections" not in race["matvec.many"]


def test_a_companion_that_breaks_its_layout_is_an_error(tmp_path: Path) -> None:
    project = example("packed", tmp_path)
    template = project.root / "kernels/templates/matvec/matvec_pack.c.j2"
    template.write_text(template.read_text().replace("{{ prototype }}", "/* {{ u }} */ {{ prototype }}"))
    project.run("check")
    template.write_text(template.read_text().replace(": 0;", ": {{ u }} - {{ u }};"))
    done = project.run("build", code=2)
    assert "matvec_pack differs between mr4_u1 and mr4_u2" in done.stderr and "layout" in done.stderr


def test_a_killed_mint_loses_no_compiled_object(quick: Project) -> None:
    quick.edit("tune.toml", "max_rounds = 3", "max_rounds = 500\nbudget_doses = 4000.0\nseat_z = 1000.0")
    with subprocess.Popen(
        [sys.executable, "-m", "tunebuild", "mint"], cwd=quick.root, env=quick.environ(LOUD),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith("@tune begin"):
            pass
        process.kill()
    time.sleep(0.2)
    assert not list(quick.root.glob("*.tune.json"))
    quick.edit("tune.toml", "max_rounds = 500\nbudget_doses = 4000.0\nseat_z = 1000.0", "max_rounds = 3")
    done = json.loads(quick.run("build", "--mode", "tune", "--json").stdout.splitlines()[-1])
    assert done["made"] == []
