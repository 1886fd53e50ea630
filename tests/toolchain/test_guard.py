"""The guard in real executables. The tool is a shell script that says how it was called."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tunebuild import codegen_artifact as artifacts
from tunebuild import host, policy
from tunebuild.codegen_artifact import ArtifactFacts, ScopeFacts
from tunebuild.model import App, Stamp

CC = shutil.which("gcc") or shutil.which("clang") or ""
RUNTIME = Path(artifacts.__file__).parent / "runtime"
BOXES = Path(__file__).parents[1] / "data/boxes"
WARNINGS = ("-O0", "-std=c17", "-Wall", "-Wextra", "-Werror")
pytestmark = [pytest.mark.cc, pytest.mark.skipif(not CC, reason="no gcc and no clang")]

FOLDER = tempfile.TemporaryDirectory(prefix="test-guard-")
SIDECAR = b'{"kernels": {"dot": "u4"}}\n'
BODY = r"""
#include <stdio.h>
#include <stdlib.h>
#include "tunebuild.h"
const tb_tune_row *demo_tune_status(size_t *count);
void demo_log_tune_status(FILE *to, const char *app);
void demo_tune_suppress(const char *knob);
int demo_tune_check(void);
#ifdef KNOB
__attribute__((constructor)) static void forbid(void) { demo_tune_suppress(KNOB); }
#endif
int main(int argc, char **argv)
{
    const char *depth = getenv("TUNEBUILD_RELAUNCH");
    printf("BODY " NAME " depth=%s", depth ? depth : "none");
    for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
    puts("");
    demo_log_tune_status(stdout, "demo");
}
"""


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def row(suffix: str = "u4", source: str = "manifest") -> Stamp:
    return Stamp("dot", "dot", "", suffix, source, "demo.tune.json", "lib")  # type: ignore[arg-type]


def baked(**changes: object) -> ArtifactFacts:
    box = host.box({})
    whole = ArtifactFacts(
        app="demo",
        kind="built",
        policy="auto",
        box=host.match_key(box.identity),
        arch=box.arch,
        project="../..",
        sidecar="demo.tune.json",
        sidecar_digest=digest(SIDECAR),
        stamps=(row(),),
        scopes=(ScopeFacts("lib", "none", ""),),
        needs=(),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


KNOB = '-DKNOB="MYLIB_NO_MINT=1 (100%)"'
UNTUNED = {
    "sidecar_digest": "",
    "scopes": (
        ScopeFacts("lib", "absent", "demo.tune.json", advice="run `tunebuild mint --app demo`"),
        ScopeFacts("other", "none", ""),
    ),
}


@functools.cache
def compiled(name: str, text: str, flags: tuple[str, ...]) -> str:
    """An object, compiled once for all tests."""
    folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
    (folder / name).write_text(text)
    subprocess.run(
        [CC, f"-I{RUNTIME}", *flags, "-c", str(folder / name), "-o", str(folder / "o")], check=True
    )
    return str(folder / "o")


class Demo:
    """One project folder with one executable in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "tool.log"
        (root / "build/normal").mkdir(parents=True)
        (root / "tune.toml").touch()
        (root / "demo.tune.json").write_bytes(SIDECAR)
        self.exe = root / "build/normal/demo"

    def make(
        self, facts: ArtifactFacts, name: str = "first", *flags: str, to: Path | None = None, body: str = BODY
    ) -> Path:
        app = App("demo", "exe", ())
        sources = {
            "status.c": artifacts.status_source(facts),
            "main.c": artifacts.main_source(app),
            "app.c": body,
        }
        objects = []
        for file, text in sources.items():
            more = (*artifacts.MAIN_FLAGS, f'-DNAME="{name}"') if file == "app.c" else ()
            objects.append(compiled(file, text, (*WARNINGS, *more, *flags)))
        target = to or self.exe
        subprocess.run([CC, *objects, "-o", str(target)], check=True)
        return target

    def tool(self, body: str = "exit 0") -> None:
        script = self.root / "build/tool.sh"
        script.write_text(
            f'#!/bin/sh\necho "$* depth=$TUNEBUILD_RELAUNCH say=$TUNEBUILD_VERBOSITY" >> "{self.log}"\n'
            f"cat >> '{self.log}'\necho from the tool\n{body}\n"
        )
        script.chmod(0o755)
        (self.root / "build/tool").write_text(f"{script}\n")

    def rebuilds(self, facts: ArtifactFacts) -> None:
        """The tool replaces the executable, as a build does: another file under the same name."""
        second = self.make(facts, "second", to=self.root / "second")
        self.tool(f"cp '{second}' '{self.exe}.new' && mv '{self.exe}.new' '{self.exe}'")

    def run(
        self, *words: str, through: tuple[str, ...] = (), **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Start it, by ``through`` where another program is to become it."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNEBUILD_")}
        clean |= {"PATH": "/usr/bin:/bin", **environ}
        return subprocess.run(
            [*through, self.exe, *words], env=clean, capture_output=True, text=True, input="typed\n"
        )

    @property
    def calls(self) -> list[str]:
        return re.sub(r"--prepare=\d+", "--prepare", self.said).splitlines()

    @property
    def said(self) -> str:
        """What the tool wrote down, with the process that called it."""
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path / "a project")


def test_tuned_start_says_nothing_and_runs_the_body(demo: Demo) -> None:
    demo.make(baked())
    demo.tool()
    done = demo.run("--", "x y")
    assert done.returncode == 0 and done.stderr == "" and demo.calls == []
    assert done.stdout.splitlines() == [
        "BODY first depth=none [--] [x y]",
        "demo: tune status (1/1 kernels tuned for this box):",
        "  dot: u4 (manifest)",
    ]


def test_untuned_start_calls_the_tool_and_becomes_the_new_executable(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.rebuilds(baked())
    done = demo.run("in", "--", "--keep")
    assert done.returncode == 0 and demo.calls == [f"-C {demo.root} run demo --prepare depth= say="]
    assert done.stdout.splitlines()[0] == "BODY second depth=none [in] [--] [--keep]"
    assert "from the tool" in done.stderr and "from the tool" not in done.stdout


def test_relaunched_start_that_is_still_untuned_does_not_tune_again(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.rebuilds(baked(**UNTUNED))
    done = demo.run()
    assert len(demo.calls) == 1 and "BODY second" in done.stdout
    assert done.stderr.endswith(
        "tunebuild: relaunch 1 did not converge: scope lib is untuned for this box: absent (demo.tune.json); "
        "run `tunebuild mint --app demo`\n"
    )
    assert "scope other" not in done.stderr


def test_the_depth_of_another_app_is_not_ours(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.rebuilds(baked())
    demo.run(TUNEBUILD_RELAUNCH="other:1")
    assert len(demo.calls) == 1
    demo.make(baked(**UNTUNED))
    demo.run(TUNEBUILD_RELAUNCH="demo:1")
    assert len(demo.calls) == 1


def test_tune_flags_are_read_after_the_dashes_only_and_are_gone_after_the_relaunch(demo: Demo) -> None:
    demo.make(baked())
    demo.rebuilds(baked())
    assert "BODY first" in demo.run("--tune").stdout and demo.calls == []
    done = demo.run("a", "--", "--tune-only", "dot,=axpy", "--tune-quiet", "b", "--tune")
    assert demo.calls == [f"-C {demo.root} run demo --prepare --tune-only=dot,=axpy depth= say=silent"]
    assert done.stdout.startswith("BODY second depth=none [a] [--] [--tune-quiet] [b]\n")


def test_filters_of_a_start_add_up_and_an_empty_one_asks_for_nothing(demo: Demo) -> None:
    demo.make(baked())
    demo.tool()
    assert demo.run("--", "--tune-only=", "--tune-only").returncode == 0 and demo.calls == []
    long = "x" * 3000
    demo.run("--", "--tune-only", "dot", "--tune-only=axpy,=copy", "--tune-only=", "--tune-only", long)
    assert demo.calls == [f"-C {demo.root} run demo --prepare --tune-only=dot,axpy,=copy,{long} depth= say="]


def test_tune_forces_under_every_policy_and_when_complete(demo: Demo) -> None:
    for flavour in ("fallback", "warn", "error", "restart"):
        demo.make(baked(policy=flavour))
        demo.rebuilds(baked())
        assert "BODY second" in demo.run("--", "--tune").stdout
    assert len(demo.calls) == 4 and all("--prepare --tune " in call for call in demo.calls)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program another user's rights")
@pytest.mark.parametrize("kind", ["built", "released"])
def test_program_with_rights_that_its_caller_lacks_reads_no_variable_writes_no_file_and_calls_no_tool(
    kind: str,
) -> None:
    with tempfile.TemporaryDirectory(prefix="test-guard-suid-") as folder:
        Path(folder).chmod(0o755)
        demo = Demo(Path(folder) / "p")
        demo.make(baked(**UNTUNED, kind=kind))
        evil = demo.root / "evil"
        evil.mkdir()
        (evil / "tunebuild").write_text(f"#!/bin/sh\ntouch '{demo.root}/called'\n")
        (evil / "tunebuild").chmod(0o755)
        roots = demo.root / "roots"
        roots.touch(mode=0o600)
        as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        words = {"TUNEBUILD_STAMPS": str(roots), "TUNEBUILD_POLICY": "bogus", "PATH": f"{evil}:/usr/bin:/bin"}
        plain = demo.run("--", "--tune", through=as_nobody, **words)
        assert plain.stderr != "" or kind == "released"
        demo.exe.chmod(0o4755)
        done = demo.run("--", "--tune", through=as_nobody, **words)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("BODY first depth=none")
        assert roots.read_text() == "" and not (demo.root / "called").exists()
        roots.chmod(0o666)
        demo.exe.chmod(0o755)
        demo.run(through=as_nobody, TUNEBUILD_STAMPS=str(roots))
        assert roots.read_text() == "demo\tdot\tu4\tmanifest\n", "a plain program still proves what it runs"


def test_mode_that_is_none_is_told_and_changes_nothing(demo: Demo) -> None:
    words = "tunebuild: TUNEBUILD_MODE: 'bogus' is no mode and says nothing; set normal, tune or test\n"
    demo.make(baked(**UNTUNED, policy="error"))
    without = demo.run()
    done = demo.run(TUNEBUILD_MODE="bogus")
    assert (done.returncode, done.stdout) == (3, "") and done.stderr == words + without.stderr
    assert demo.run(TUNEBUILD_MODE="tune").returncode == 0, "a tuner's own process"
    demo.make(baked(**UNTUNED))
    demo.rebuilds(baked())
    done = demo.run(TUNEBUILD_MODE="bogus")
    assert "BODY second" in done.stdout and done.stderr.startswith(words) and len(demo.calls) == 1


@pytest.mark.parametrize("changed", [SIDECAR + b" ", SIDECAR.replace(b"u4", b"u2"), b""])
def test_changed_sidecar_is_stamped_anew_whatever_its_size_and_times_say(demo: Demo, changed: bytes) -> None:
    demo.make(baked())
    demo.rebuilds(baked())
    path = demo.root / "demo.tune.json"
    before = path.stat()
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "BODY second" in demo.run().stdout and len(demo.calls) == 1


def test_covered_box_names_the_class_and_tunes_nothing(demo: Demo) -> None:
    line = "scope lib is covered by the x86-avx2 profile (3 entries), nothing to race"
    demo.make(baked(sidecar_digest="", scopes=(ScopeFacts("lib", "absent", "", line),)))
    (demo.root / "demo.tune.json").unlink()
    demo.tool()
    done = demo.run()
    assert done.stderr == f"tunebuild: {line}\n" and demo.calls == []
    assert demo.run(TUNEBUILD_VERBOSITY="silent").stderr == ""
    assert demo.run(TUNEBUILD_RELAUNCH="demo:1").stderr == "", "who relaunched it said it; no fuse blew"


def test_what_is_covered_is_left_to_the_tool_to_say_where_it_is_called(demo: Demo) -> None:
    line = "scope lib is covered by the x86-avx2 profile (3 entries), nothing to race"
    facts = baked(scopes=(ScopeFacts("lib", "absent", "", line), ScopeFacts("own", "absent", "x")))
    demo.make(facts)
    demo.rebuilds(facts)
    said = demo.run().stderr
    assert len(demo.calls) == 1 and line not in said and "relaunch 1 did not converge" in said
    (demo.root / "build/tool").unlink()
    assert demo.run().stderr.splitlines() == [
        f"tunebuild: {line}",
        "tunebuild: the tunebuild command is not on this machine: demo runs with the rows it has; install it, or set "
        "TUNEBUILD_POLICY=fallback",
    ]


def test_restart_tunes_prints_the_marker_and_stops_with_3(demo: Demo) -> None:
    demo.make(baked(**UNTUNED, policy="restart"))
    demo.rebuilds(baked(policy="restart"))
    done = demo.run()
    assert done.returncode == policy.RESTART_EXIT and "BODY" not in done.stdout
    assert done.stderr.splitlines()[-1] == policy.RESTART_MARKER
    assert demo.run().returncode == 0 and len(demo.calls) == 1


def test_restart_whose_tuner_failed_stops_without_the_marker(demo: Demo) -> None:
    demo.make(baked(**UNTUNED, policy="restart"))
    demo.tool("exit 1")
    done = demo.run()
    assert done.returncode == 3 and policy.RESTART_MARKER not in done.stderr


def test_error_refuses_an_untuned_start_even_silently(demo: Demo) -> None:
    demo.make(baked(**UNTUNED, policy="error"))
    done = demo.run(TUNEBUILD_VERBOSITY="silent")
    assert done.returncode == 3 and "scope lib is untuned for this box: absent" in done.stderr
    assert "run `tunebuild mint --app demo`, or set TUNEBUILD_POLICY=fallback" in done.stderr
    assert "BODY" not in done.stdout and demo.calls == []
    by_hand = ScopeFacts("lib", "absent", "x", advice="write the winners of scope lib into x by hand")
    demo.make(baked(policy="error", scopes=(by_hand,)))
    done = demo.run()
    assert done.stderr == (
        "tunebuild: scope lib is untuned for this box: absent (x); write the winners of scope lib into x by hand, "
        "or set TUNEBUILD_POLICY=fallback\n"
    )


def test_warn_says_what_is_untuned_and_runs(demo: Demo) -> None:
    demo.make(baked(**UNTUNED, policy="warn"))
    done = demo.run()
    assert (
        done.returncode == 0
        and "WARNING: scope lib is untuned" in done.stderr
        and "run `tunebuild mint --app demo`" in done.stderr
    )


def test_environment_overrides_the_policy_and_is_announced_once(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool()
    done = demo.run(TUNEBUILD_POLICY="fallback")
    assert done.stderr == "tunebuild: policy fallback from TUNEBUILD_POLICY (demo would have auto)\n"
    assert "BODY first" in done.stdout and demo.calls == []
    assert demo.run(TUNEBUILD_POLICY="fallback", TUNEBUILD_VERBOSITY="silent").stderr == ""
    wrong = demo.run(TUNEBUILD_POLICY="never")
    assert wrong.returncode == 2 and "'never' is no policy" in wrong.stderr


def test_suppressed_mint_prints_the_knob_verbatim(demo: Demo) -> None:
    (demo.root / "demo.tune.json").unlink()
    demo.make(baked(**UNTUNED), "first", KNOB)
    demo.tool()
    done = demo.run()
    assert done.stderr == "tunebuild: scope lib stays untuned: no minting, by MYLIB_NO_MINT=1 (100%)\n"
    assert "BODY first" in done.stdout and demo.calls == []
    demo.run("--", "--tune")
    assert len(demo.calls) == 1 and "--tune" in demo.calls[0], "forced runs ignore it"
    assert "--no-mint" not in demo.calls[0]


@pytest.mark.parametrize("why", ["answerable", "changed"])
def test_suppressed_mint_still_asks_the_tool_for_winners_that_need_none(demo: Demo, why: str) -> None:
    scopes = (ScopeFacts("lib", "missing", "dot", answerable=why == "answerable"),)
    if why == "answerable":
        (demo.root / "demo.tune.json").unlink()
    facts = baked(sidecar_digest="", scopes=scopes)
    demo.make(facts, "first", KNOB)
    second = demo.make(
        replace(facts, scopes=(replace(scopes[0], answerable=False),)), "second", KNOB, to=demo.root / "s"
    )
    demo.tool(f"cp '{second}' '{demo.exe}.new' && mv '{demo.exe}.new' '{demo.exe}'; exit 1")
    done = demo.run("--", "x")
    assert demo.calls == [f"-C {demo.root} run demo --prepare --no-mint=MYLIB_NO_MINT=1 (100%) depth= say="]
    assert done.returncode == 0 and "BODY second depth=none [--] [x]" in done.stdout
    assert done.stderr == "from the tool\n", "what is still open was said by the tool, once"


def test_restart_with_a_suppressed_mint_stops_only_where_winners_came(demo: Demo) -> None:
    scopes = (ScopeFacts("lib", "missing", "dot", answerable=True),)
    demo.make(baked(policy="restart", sidecar_digest="", scopes=scopes), "first", KNOB)
    demo.tool("exit 1")
    done = demo.run()
    assert done.returncode == 0 and "BODY first" in done.stdout and policy.RESTART_MARKER not in done.stderr
    demo.tool()
    done = demo.run()
    assert done.returncode == policy.RESTART_EXIT and policy.RESTART_MARKER in done.stderr.splitlines()


def refused(demo: Demo, left_s: int, what: str = "was refused (this box is too loud)") -> str:
    """A mint came to nothing, and its note holds so long still; the time of day at its end."""
    until = int(time.time()) + left_s
    (demo.root / "build/refused.demo").write_text(f"{until}\n{what}\n")
    return time.strftime("%H:%M", time.localtime(until))


def test_start_after_a_refused_mint_says_one_line_and_calls_no_tool(demo: Demo) -> None:
    (demo.root / "demo.tune.json").unlink()
    demo.make(baked(**UNTUNED))
    demo.tool()
    until = refused(demo, 500)
    done = demo.run("x")
    assert done.returncode == 0 and "BODY first depth=none [x]" in done.stdout and demo.calls == []
    line = "its last mint was refused (this box is too loud); start it with --tune to race now\n"
    assert done.stderr == f"tunebuild: demo runs the rows it has until {until}: {line}"
    assert demo.run(TUNEBUILD_VERBOSITY="silent").stderr == ""
    stopped = demo.run(TUNEBUILD_POLICY="restart")
    assert stopped.returncode == 3 and "BODY" not in stopped.stdout and demo.calls == []
    assert stopped.stderr.endswith(f"tunebuild: demo waits until {until}: {line}")
    assert policy.RESTART_MARKER not in stopped.stderr


def test_start_after_a_failed_mint_waits_whoever_overrides_the_noise(demo: Demo) -> None:
    (demo.root / "demo.tune.json").unlink()
    demo.make(baked(**UNTUNED))
    demo.tool()
    until = refused(demo, 500, "failed (the tuner of lib ended with 1)")
    done = demo.run(TUNEBUILD_NOISE_OVERRIDE="1")
    assert "BODY first depth=none" in done.stdout and demo.calls == []
    assert done.stderr == (
        f"tunebuild: demo runs the rows it has until {until}: its last mint failed (the tuner of lib ended with 1); "
        "start it with --tune to race now\n"
    )


@pytest.mark.parametrize("why", ["over", "ahead", "empty", "garbage", "forced", "overridden", "answerable"])
def test_refused_mint_is_tried_again_when_its_note_holds_no_longer_or_somebody_asks(
    demo: Demo, why: str
) -> None:
    (demo.root / "demo.tune.json").unlink()
    scopes = (ScopeFacts("lib", "absent", "demo.tune.json", answerable=why == "answerable"),)
    demo.make(baked(sidecar_digest="", scopes=scopes))
    demo.tool()
    refused(demo, {"over": -1, "ahead": 4000}.get(why, 500))
    if why in ("empty", "garbage"):
        (demo.root / "build/refused.demo").write_bytes(b"" if why == "empty" else b"\xff9e99\n" * 99)
    words = ("--", "--tune") if why == "forced" else ()
    environ = {"TUNEBUILD_NOISE_OVERRIDE": "1"} if why == "overridden" else {}
    assert demo.run(*words, **environ).returncode == 0 and len(demo.calls) == 1


def test_program_without_a_rail_says_so_where_untuned_and_checks_its_features(demo: Demo) -> None:
    demo.make(baked(**UNTUNED), "first", "-DTB_NO_RAIL")
    demo.tool()
    done = demo.run("--", "--tune")
    assert done.returncode == 0 and "BODY first" in done.stdout and demo.calls == []
    line = "tunebuild: demo is untuned and was built without a rail: tune it with `tunebuild run demo`\n"
    assert done.stderr == line
    assert demo.run(TUNEBUILD_VERBOSITY="silent").stderr == ""
    demo.make(baked(), "first", "-DTB_NO_RAIL")
    assert demo.run().stderr == ""
    lacking = "amx-int8" if "amx-int8" not in host.box({}).features else "avx512fp16"
    if host.box({}).arch == "x86_64" and lacking not in host.box({}).features:
        demo.make(baked(needs=(lacking,)), "first", "-DTB_NO_RAIL")
        assert demo.run().returncode == 3


def test_absent_tool_is_said_once_and_the_program_runs(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    done = demo.run()
    assert done.returncode == 0 and "BODY first" in done.stdout
    assert (
        done.stderr
        == "tunebuild: the tunebuild command is not on this machine: demo runs with the rows it has; "
        "install it, or set TUNEBUILD_POLICY=fallback\n"
    )


def test_failed_tool_leaves_the_program_as_it_is(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool("exit 1")
    done = demo.run()
    assert done.returncode == 0 and "BODY first" in done.stdout
    assert (
        "the tool exited 1, its words are above); TUNEBUILD_POLICY=fallback starts it without" in done.stderr
    )


def test_program_that_cannot_be_started_anew_runs_on_and_says_why(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool(f"echo no program > '{demo.exe}.new'; mv '{demo.exe}.new' '{demo.exe}'")
    done = demo.run()
    assert done.returncode == 0 and "BODY first depth=none" in done.stdout
    assert done.stderr == (
        "from the tool\ntunebuild: demo cannot be started anew (Permission denied): it runs with the rows it had, "
        "start it again\n"
    )


def test_the_tool_reads_nothing_of_the_programs_input(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool()
    demo.run()
    assert len(demo.calls) == 1, "the script copies its standard input to the log"


KEEPS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    char typed[64], piped[64] = "";
    if (!fgets(typed, sizeof typed, stdin) || read(atoi(getenv("FD")), piped, sizeof piped - 1) < 0) return 1;
    printf("%d %s %s%s", (int)getpid(), getenv("KEPT"), typed, piped);
    return 5;
}
"""


def test_relaunched_program_is_the_same_process_with_its_input_environment_and_descriptors(
    demo: Demo,
) -> None:
    second = demo.make(baked(), "second", to=demo.root / "second", body=KEEPS)
    demo.make(baked(**UNTUNED))
    demo.tool(f"cp '{second}' '{demo.exe}.new' && mv '{demo.exe}.new' '{demo.exe}'")
    end, other = os.pipe()
    os.write(other, b"down the pipe\n")
    os.close(other)
    environ = {"PATH": "/usr/bin:/bin", "KEPT": "kept", "FD": str(end)}
    started = subprocess.Popen(
        [demo.exe], env=environ, stdin=-1, stdout=-1, stderr=-1, text=True, pass_fds=(end,)
    )
    said, _ = started.communicate("typed\n")
    os.close(end)
    assert (said, started.returncode) == (f"{started.pid} kept typed\ndown the pipe\n", 5)
    assert len(demo.calls) == 1 and f"run demo --prepare={started.pid} " in demo.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_that_ends_the_start_ends_its_tool_first(demo: Demo, number: signal.Signals) -> None:
    demo.make(baked(**UNTUNED))
    there = demo.root / "there"
    demo.tool(
        f"trap 'echo asked >> \"{demo.log}\"; exit 143' TERM\n: > '{there}'; while :; do sleep 0.05; done"
    )
    started = subprocess.Popen(
        [demo.exe], env={"PATH": "/usr/bin:/bin"}, stdout=-1, stderr=-1,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whoever runs the tests may ignore it
    )  # fmt: skip
    while not there.exists():
        time.sleep(0.01)
    started.send_signal(number)
    said, _ = started.communicate(timeout=60)
    assert started.returncode == -number and b"BODY" not in said and demo.calls[-1] == "asked"


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_start_with_closed_descriptors_tunes_all_the_same(demo: Demo, closed: str) -> None:
    demo.make(baked(**UNTUNED))
    demo.rebuilds(baked())
    done = demo.run(through=("sh", "-c", f'exec "$0" "$@" {closed}'))
    assert done.returncode == 0 and len(demo.calls) == 1
    assert ">&- 2" in closed or "BODY second" in done.stdout


def test_start_that_ignores_its_children_hears_the_tools_exit_code(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool("exit 7")
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    assert "the tool exited 7" in demo.run(through=(sys.executable, "-c", code)).stderr


def test_another_mode_or_an_explicit_sidecar_switches_the_rail_off(demo: Demo) -> None:
    demo.make(baked(**UNTUNED))
    demo.tool()
    assert demo.run(TUNEBUILD_MODE="tune").stderr == ""
    gone = demo.run(TUNEBUILD_MANIFEST="/no/such.json")
    assert gone.stderr.count("WARNING: TUNEBUILD_MANIFEST=/no/such.json: scope") == 2
    assert "scope lib is untuned for this box: absent (/no/such.json)" in gone.stderr and gone.returncode == 0
    other = demo.root / "other.json"
    other.write_text("{}")
    assert "stamped from another file" in demo.run(TUNEBUILD_MANIFEST=str(other)).stderr
    assert demo.calls == []
    demo.make(baked())
    assert demo.run(TUNEBUILD_MANIFEST=str(demo.root / "demo.tune.json")).stderr == ""


def test_foreign_box_is_tuned_anew_where_built_and_named_where_released(demo: Demo) -> None:
    here = host.match_key(host.box({}).identity)
    demo.make(baked(), "first", '-DTB_TEST_BOX="linux|x86_64||9.9|another cpu"')
    demo.rebuilds(baked())
    assert "BODY second" in demo.run().stdout and len(demo.calls) == 1
    demo.make(baked(kind="released"), "first", '-DTB_TEST_BOX="linux|x86_64||9.9|another cpu"')
    done = demo.run("--", "--tune")
    assert done.returncode == 0 and "BODY first" in done.stdout and len(demo.calls) == 1
    assert done.stderr == (
        f"tunebuild: demo was stamped on {here}, this is linux|x86_64||9.9|another cpu; "
        "build it here to tune it for this box\n"
    )


def test_a_lacking_feature_is_one_line_and_exit_3(demo: Demo) -> None:
    lacking = "amx-int8" if "amx-int8" not in host.box({}).features else "avx512fp16"
    if host.box({}).arch != "x86_64" or lacking in host.box({}).features:
        pytest.skip("this machine has every feature that the test lacks")
    demo.make(baked(kind="released", needs=("avx2|avx", lacking)))
    done = demo.run()
    assert done.returncode == 3 and "BODY" not in done.stdout
    assert f"demo: its rows need {lacking}, which this CPU lacks" in done.stderr.splitlines()[-1]
    demo.make(baked(needs=("avx2|avx", lacking)))
    assert demo.run(TUNEBUILD_POLICY="fallback").returncode == 3
    demo.rebuilds(baked())
    assert "BODY second" in demo.run().stdout, "where the rail is live, it is tuned for this CPU instead"


def test_every_feature_of_this_machine_is_found_by_the_check(demo: Demo) -> None:
    box = host.box({})
    demo.make(baked(needs=tuple(sorted(box.features))))
    done = demo.run()
    assert done.returncode == 0 and done.stderr == ""


def test_frozen_executable_is_inert(demo: Demo) -> None:
    demo.make(
        baked(
            kind="frozen",
            policy="error",
            box="",
            sidecar_digest="",
            scopes=(),
            stamps=(row("reference", "reference"),),
        )
    )
    demo.tool()
    done = demo.run("--", "--tune", TUNEBUILD_POLICY="error", TUNEBUILD_MANIFEST="/none")
    assert done.returncode == 0 and done.stderr == "" and demo.calls == []
    assert "dot: reference (reference)" in done.stdout


def test_moved_executable_runs_on_what_it_has(demo: Demo, tmp_path: Path) -> None:
    demo.make(baked())
    demo.exe = Path(shutil.copy(demo.exe, tmp_path / "demo"))
    assert demo.run().stderr == ""
    demo.exe = Path(shutil.copy(demo.make(baked(**UNTUNED), to=demo.root / "x"), tmp_path / "demo"))
    assert "not in its project's folder" in demo.run().stderr


def test_status_counts_profiles_as_tuned_and_hints_at_the_rest(demo: Demo) -> None:
    stamps = (
        row(),
        row("u2", "profile"),
        row("u8", "fallback"),
        row("reference", "reference"),
        row("reference"),
    )
    demo.make(baked(stamps=stamps, hint="do this"))
    lines = demo.run().stdout.splitlines()[1:]
    assert lines[0] == "demo: tune status (3/5 kernels tuned for this box):"
    assert lines[3:6] == [
        "  dot: u8 (fallback)",
        "  dot: reference (reference)",
        "  dot: reference (manifest)",
    ]
    assert lines[6:] == ["  to tune the rest: do this"]
    demo.make(baked(stamps=stamps))
    assert len(demo.run().stdout.splitlines()) == 7, "where nothing can be done, nothing is asked for"


def test_status_of_an_artifact_without_seats_says_nothing(demo: Demo) -> None:
    demo.make(baked(stamps=()))
    assert demo.run().stdout == "BODY first depth=none\n"


def test_program_that_falls_off_main_returns_0_and_others_their_code(demo: Demo) -> None:
    for body, code in (("int main(void) { return 7; }", 7), ("int main(void) { }", 0)):
        demo.make(baked(), body=body)
        assert demo.run().returncode == code


def test_manual_guard_leaves_main_to_the_author() -> None:
    text = artifacts.main_source(App("my app", "exe", (), guard="manual"))
    assert "int my_app_tune_guard(int argc, char **argv);" in text and "int main(" not in text


@pytest.mark.parametrize("cc", ["gcc", "clang", "aarch64-linux-gnu-gcc"])
def test_runtime_compiles_without_a_warning(cc: str, tmp_path: Path) -> None:
    if not shutil.which(cc):
        pytest.skip(f"{cc} is not here")
    arch, need = ("aarch64", "dotprod|i8mm") if "aarch64" in cc else ("x86_64", "avx512f")
    sources = {
        "status": artifacts.status_source(baked(arch=arch, needs=(need,))),
        "main": artifacts.main_source(App("demo", "exe", ())),
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.c").write_text(text)
        command = [cc, "-O2", "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", "-fsyntax-only"]
        subprocess.run([*command, str(tmp_path / f"{name}.c")], check=True)


def test_digest_of_a_file_is_the_tools_at_every_length_around_a_block(tmp_path: Path) -> None:
    text = '#include "tb_digest.h"\n'
    text += "int main(int n, char **v) { char hex[TB_DIGEST_TEXT];"
    text += "for (int i = 1; i < n; i++) tb_file_digest(v[i], hex), puts(hex); }"
    subprocess.run(
        [CC, compiled("sum.c", text, (*WARNINGS, "-D_GNU_SOURCE")), "-o", tmp_path / "sum"], check=True
    )
    files = [tmp_path / str(length) for length in (*range(260), 16383, 16384, 16385, 16512, 32768, 40001)]
    for path in files:
        path.write_bytes(bytes(i * 7 % 256 for i in range(int(path.name))))
    done = subprocess.run([tmp_path / "sum", *files, "/no/such"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        *(digest(path.read_bytes()) for path in files),
        "",
    ]


KEYS = r"""
#include "tb_box.h"
int main(int argc, char **argv)
{
    char key[512], name[256];
    printf("%d %s\n", tb_is_box(argv[1], key, sizeof key), key);
    tb_cpu_brand(name);
    tb_box_key(name, key, sizeof key);
    puts(key);
    for (int i = 2; i < argc; i++) {
        tb_cpu_name(argv[i], name, sizeof name);
        tb_box_key(name, key, sizeof key);
        puts(strrchr(key, '|') + 1);
    }
}
"""


def keys_in_c(tmp_path: Path, expected: str, *cpuinfo: Path) -> list[str]:
    program = tmp_path / "box"
    subprocess.run([CC, compiled("box.c", KEYS, (*WARNINGS, "-D_GNU_SOURCE")), "-o", program], check=True)
    done = subprocess.run([program, expected, *cpuinfo], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_box_key_is_the_tools_by_the_processor_and_by_the_file(tmp_path: Path) -> None:
    key = host.match_key(host.box({}).identity)
    judged, by_processor = keys_in_c(tmp_path, key)
    assert judged == f"1 {key}"
    if host.box({}).arch == "x86_64":
        assert by_processor == key, "no file need be read where the processor tells its name"
    assert keys_in_c(tmp_path, "linux|x86_64||9.9|another cpu")[0] == f"0 {key}"


def test_cpu_of_every_recorded_linux_box_is_the_tools(tmp_path: Path) -> None:
    recorded = [json.loads(path.read_text()) for path in sorted(BOXES.glob("*.json"))]
    boxes = [box for box in recorded if box["platform"] == "linux"]
    files = [tmp_path / str(at) for at in range(len(boxes))]
    for path, box in zip(files, boxes, strict=True):
        path.write_text("\n".join(box["cpuinfo"]) + "\n")
    names = [box["expect"]["match_key"].rpartition("|")[2] for box in boxes]
    assert keys_in_c(tmp_path, "", *files)[2:] == names and len(names) > 20
