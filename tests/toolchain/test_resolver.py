"""A scope's resolver over HTTP and from a folder: winners of elsewhere are served, marked, and never sent on."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import Project

from tunebuild import generate, sidecar
from tunebuild.document import Document
from tunebuild.upsert import EXCHANGE, Change, origin_of

pytestmark = pytest.mark.cc


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def shared(project: Project, tmp_path: Path) -> Path:
    """A folder that lists this box's own winner, verified; the project itself has none any more."""
    made = generate.generate(project.root, environ={})
    change = Change(kernels={"dot_f32": "isa_base_u2"}, built={"dot_f32": made.built["dot_f32"]})
    path = made.records[made.app().name].path
    sidecar.save(path, change, box=made.box, built_now=made.built)
    folder = tmp_path / "shared"
    project.run("exchange", "push", str(folder))
    path.unlink()
    for index in folder.rglob("*.json"):
        root = json.loads(index.read_text())
        for hit in root.get("hits", []):
            hit["verified"] = True
        index.write_text(json.dumps(root)) if "hits" in root else None
    return folder


@pytest.fixture
def http(shared: Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(shared)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _start(project: Project, resolver: str) -> tuple[Document, str]:
    """One start of the rail with this resolver: the sidecar after it, and what was said."""
    text = (project.root / "tune.toml").read_text()
    app = json.loads(project.run("status", "--json").stdout.splitlines()[-1])["app"]
    (project.root / "tune.toml").write_text(f'{text}\n[scope.{app}]\nresolver = "{resolver}"\n')
    done = project.run("run", app, "--prepare")
    (path,) = project.root.glob("*.tune.json")
    found = sidecar.read(path)
    assert isinstance(found, Document)
    return found, done.stdout + done.stderr


def _served(project: Project) -> tuple[str, str]:
    (row,) = json.loads(project.run("status", "--json").stdout.splitlines()[-1])["families"]
    return row["suffix"], row["source"]


@pytest.mark.parametrize("place", ["http", "folder"])
def test_resolver_serves_what_is_shared_and_nothing_is_raced_or_sent_on(
    project: Project, place: str, shared: Path, http: str
) -> None:
    found, said = _start(project, f"exchange:{http if place == 'http' else shared}")
    assert found.kernels == {"dot_f32": "isa_base_u2"}
    assert origin_of(found, "dot_f32") == EXCHANGE
    assert "@tune" not in said
    assert _served(project) == ("isa_base_u2", "manifest")
    done = project.run("exchange", "push", str(shared), code=3)
    assert "came from the exchange: they are not sent on" in done.stderr


def test_resolver_may_be_a_function_beside_tune_toml(project: Project, shared: Path) -> None:
    code = (
        "from tunebuild import generate, sidecar\nfrom tunebuild.upsert import Change\nfrom pathlib import Path\n"
        "def find(scope, path, demand):\n"
        "    made = generate.generate(Path(path).parent)\n"
        "    change = Change(kernels={demand: 'isa_base_u8'}, built=dict(made.built), origin='exchange')\n"
        "    sidecar.save(Path(path), change, box=made.box, built_now=made.built)\n"
        "    return True\n"
    )
    (project.root / "resolver.py").write_text(code)
    found, said = _start(project, "resolver.py:find")
    assert (found.kernels, "@tune" in said) == ({"dot_f32": "isa_base_u8"}, False)
    assert _served(project) == ("isa_base_u8", "manifest")


@pytest.mark.parametrize("statement", ["import sys; sys.exit(0)", "raise SystemExit('enough')", "1 / 0"])
def test_resolver_that_fails_or_exits_is_told_and_the_app_starts(project: Project, statement: str) -> None:
    project.write("resolver.py", f"def find(*words):\n    {statement}\n")
    project.write("demo.c", '#include <stdio.h>\nint main(void) { puts("the app runs"); return 4; }\n')
    project.edit(
        "tune.toml", "[build]",
        '[app.demo]\nkind = "exe"\nsources = ["demo.c"]\npolicy = "auto"\n'
        '[scope.own]\nresolver = "resolver.py:find"\n[build]',
    )  # fmt: skip
    project.write("stop", "")  # no race: what is tested stands before it
    done = project.run("run", "demo", code=4, TUNEBUILD_CONTROL=str(project.root / "stop"))
    assert done.stdout == "the app runs\n"
    why = {
        "1": "division by zero",
        "r": "it ended the process with enough",
        "i": "it ended the process with 0",
    }
    assert f"tunebuild: the resolver of scope own failed: {why[statement[0]]}\n" in done.stderr
