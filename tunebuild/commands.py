"""The commands: what each takes, which flow it runs, and how its result is said."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tunebuild import memo
from tunebuild.errors import REFUSED, WORK_FAILED, UsageError

if TYPE_CHECKING:
    from tunebuild.model import Mode

ROOTLESS = ("init", "box", "doctor", "cache")
EPILOG = """\
exit codes: 0 done; 1 the work failed; 2 usage or configuration; 3 refused, nothing changed; 128 + n signals
"""


class _Parser(argparse.ArgumentParser):
    """Wrong words end as every mistake does: what, what to write instead, and as JSON where that is asked for."""

    def error(self, message: str) -> NoReturn:
        """:raises UsageError: always. A word that is none of a closed list is answered from that list."""
        chosen = re.fullmatch(r"(.*invalid choice: '(.*)') \(choose from (.*)\)", message, re.S)
        if chosen is None:
            raise UsageError(message, fix=self._shape())
        what, word, listed = chosen.groups()
        known = re.findall(r"[\w-]+", listed)
        raise UsageError(what, fix=_meant(word, known) or f"write one of {', '.join(known)}")

    def refuse(self, strange: Sequence[str], hint: str = "") -> NoReturn:
        """:raises UsageError: for words that the command does not take."""
        near = _meant(strange[0].partition("=")[0], re.findall(r"--[\w-]+", self.format_usage()))
        raise UsageError(f"unrecognized arguments: {' '.join(strange)}", fix=hint or near or self._shape())

    def _shape(self) -> str:
        return " ".join(self.format_usage().split())


def _meant(word: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else ""


def _parser() -> _Parser:
    parser = _Parser(
        prog="tunebuild",
        description="Build tuned native kernels: one reference body, a grid of variants, winners as data.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-C", dest="folder", metavar="DIR", default=".", help="run as if started in DIR")
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, text: str, *, reports: bool = True) -> _Parser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(parser=sub)
        if reports:
            sub.add_argument("--json", action="store_true", help="one JSON document, the last line of output")
        return sub

    sub = command("init", "write a small working project to edit", reports=False)
    sub.add_argument("dir", nargs="?", default=".")
    command("check", "read tune.toml, count the rows and say what each filter removed")
    sub = command("build", "generate, then run ninja")
    sub.add_argument(
        "--mode", choices=("normal", "tune", "test"), help="what to build (else TUNEBUILD_MODE says; normal)"
    )
    sub.add_argument("--app", default="", help="this app alone")
    sub.add_argument("--frozen", action="store_true", help="for other boxes: reference bodies, no rail")
    sub.add_argument(
        "--explain", action="store_true", help="build, and say of every output why it is made again"
    )
    sub = command("test", "gate every row against its reference body")
    sub.add_argument("families", nargs="*", metavar="FAMILY")
    sub.add_argument("--row", default="", help="this row alone")
    sub.add_argument("--case", default="", help='one case, as a report prints it: "n=31 offset=1 fill=max …"')
    sub.add_argument("--toolchain", default="", help="gate with a named toolchain, such as a cross compiler")
    sub.add_argument("--sanitize", action="store_true", help="once more under ASan and UBSan")
    sub = command("mint", "race every demanded seat on this box and write the winners")
    sub.add_argument("--app", default="")
    sub.add_argument(
        "--only", action="append", default=[], metavar="TOK,…", help="seats whose name holds a token"
    )
    sub.add_argument("--stale", action="store_true", help="only what is absent or stale")
    sub.add_argument("--quiet", action="store_true")
    sub.add_argument("--verbose", action="store_true")
    sub.add_argument("--record", default="", metavar="FILE", help="save every measurement for a replay")
    sub.add_argument("--dry-run", action="store_true", help="say what would be raced, race nothing")
    sub = command("run", "the rail, then the app", reports=False)
    sub.add_argument("app", nargs="?", default="")
    sub.add_argument("--tune", action="store_true")
    sub.add_argument("--tune-only", action="append", default=[], metavar="TOK,…")
    sub.add_argument("--tune-quiet", action="store_true")
    sub.add_argument("--tune-verbose", action="store_true")
    # An executable's guard asks, and says which process it is in: it may be killed while the tool works.
    sub.add_argument("--prepare", nargs="?", type=int, const=0, metavar="PID", help=argparse.SUPPRESS)
    sub.add_argument("--no-mint", default="", metavar="KNOB", help=argparse.SUPPRESS)  # so does its program
    sub = command("status", "what every seat runs, on whose measurement")
    sub.add_argument("--app", default="")
    sub.add_argument("--fleet", nargs="+", metavar="DIR", help="over folders of sidecars of many boxes")
    sub = command("why", "how one family's winner was decided")
    sub.add_argument("family")
    sub.add_argument("--app", default="")
    sub = command("release", "the gate and the bundle")
    sub.add_argument("--app", default="")
    sub.add_argument("--quick", action="store_true", help="inherit a complete and fresh sidecar")
    sub.add_argument("--paranoid", action="store_true", help="measure all that ships, as without --quick")
    sub.add_argument("-o", dest="output", default="", metavar="DIR")
    sub = command("profile", "class profiles")
    sub.add_argument("action", choices=("export", "merge", "list", "show"))
    sub.add_argument("arguments", nargs="*")
    sub.add_argument("--app", default="")
    sub.add_argument("--scope", default="", help="this scope alone")
    sub.add_argument("--budget", type=float, default=5.0, help="merge: the worst loss allowed, percent")
    command("box", "this machine: identity, class, features, ladder")
    sub = command("exchange", "sidecars of other boxes")
    sub.add_argument("action", choices=("push", "pull"))
    sub.add_argument("url")
    sub.add_argument("--app", default="")
    sub.add_argument("--accept", choices=("verified", "any"), default="verified", help="pull: which hits")
    sub = command("history", "the archive of mints")
    sub.add_argument("--app", default="")
    sub = command("diff", "two mints side by side")
    sub.add_argument("a", nargs="?", default="")
    sub.add_argument("b", nargs="?", default="")
    sub.add_argument("--app", default="")
    sub = command("explain", "a row's compile line, file and gdb command")
    sub.add_argument("row")
    sub = command("asm", "a row's disassembly", reports=False)
    sub.add_argument("row")
    sub = command("add", "add a family: its folder and its table", reports=False)
    sub.add_argument("what", choices=("family",))
    sub.add_argument("name")
    sub = command("cache", "the artifact cache")
    sub.add_argument("action", choices=("info", "gc"))
    sub = command("report", "a page with pictures of the races", reports=False)
    sub.add_argument("-o", dest="output", default="tune-report.html", metavar="FILE")
    sub.add_argument("--app", default="")
    command("doctor", "what disturbs a measurement here")
    return parser


def run(words: list[str]) -> int:
    """Parse, run, report; the exit code."""
    passed_on: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, passed_on = words[:cut], words[cut + 1 :]
    if words[:1] == ["_generate"]:  # build.ninja's own word
        return _generate()
    parser = _parser()
    options, strange = parser.parse_known_args(words)
    if strange:
        own = ""
        if options.command == "run":
            own = f"the app's own stand after --: tunebuild run {options.app} -- {' '.join(strange)}"
        options.parser.refuse(strange, own)
    if options.version:
        from tunebuild import __version__

        print(f"tunebuild {__version__}")
        return 0
    if not options.command:
        parser.print_help()
        return 2
    options.passed_on = passed_on
    options.root = Path(memo.find_root(options.folder))
    if explicit := os.environ.get("TUNEBUILD_MANIFEST", ""):  # one file, wherever what we start is started
        os.environ["TUNEBUILD_MANIFEST"] = os.path.abspath(os.path.join(options.folder, explicit))
    if options.command not in ROOTLESS and not (options.root / "tune.toml").exists():
        raise UsageError(
            "there is no tune.toml",
            where=str(options.root / "tune.toml"),
            fix="run `tunebuild init`, or go to a project with -C",
        )
    if options.command not in ROOTLESS and any(map(os.environ.get, ("TUNEBUILD_MODE", "TUNEBUILD_POLICY"))):
        from tunebuild import artifact

        artifact.require_known(os.environ)
    handler: Callable[[argparse.Namespace], int] = globals()[f"_{options.command}"]
    return handler(options)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _answer(options: argparse.Namespace, document: object, text: str) -> None:
    """Text for a person, or one JSON document as the last line of standard output."""
    if getattr(options, "json", False):
        print(json.dumps(document, sort_keys=True))
    elif text:
        print(text)


def _generate() -> int:
    """What build.ninja runs when tune.toml or a winner changed; ninja runs it under the build lock.

    The apps are held to their policies as `tunebuild build` holds them.
    """
    from tunebuild import artifact, generate, writing

    generated = generate.generate(Path.cwd())
    apps, states = generated.manifest.apps, generated.states
    for line in artifact.policy_lines(generated.manifest, apps, states, os.environ, frozen=False):
        _say(line)
    writing.write(generated)
    return 0


def _build(options: argparse.Namespace) -> int:
    from tunebuild import artifact, building

    mode: Mode = options.mode or artifact.mode(os.environ)
    built = building.build(
        options.root, mode, app=options.app, frozen=options.frozen, explain=options.explain, say=_say
    )
    made, hits = built.made, built.hits
    for row in built.rejected:  # ninja has relayed what the compiler says in full
        _say(f"rejected at {row.stage}: {row.suffix}: {(row.why.splitlines() or [''])[0]}")
    for note in dict.fromkeys(note for ran in built.ran for note in ran.notes):
        _say(f"tunebuild: {note}")
    words = f"{len(made)} built, {len(hits)} from the cache" if made or hits else "nothing to do"
    if built.rejected:
        words = f"{len(made)} built, {len(hits)} from the cache, {len(built.rejected)} rejected"
    rejected = [
        {"row": row.suffix, "stage": row.stage, "why": row.why, "replay": row.replay}
        for row in built.rejected
    ]
    document = {"mode": mode, "made": list(made), "hits": list(hits), "rejected": rejected}
    _answer(options, document, f"tunebuild: {words}")
    return 1 if built.rejected and mode == "test" else 0


def _cache(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tunebuild import cache

    store = cache.store()
    found = cache.info(store) if options.action == "info" else cache.gc(store)
    document = {"root": os.fspath(store.root) if store.root else "", **asdict(found)}
    _answer(options, document, "\n".join(f"{key}: {value}" for key, value in document.items()))
    return 0


def _init(options: argparse.Namespace) -> int:
    from tunebuild import scaffold

    for path in scaffold.init(Path(options.folder, options.dir)):
        print(f"wrote {path}")
    there = "" if options.dir in ("", ".") else f"cd {options.dir}, "
    print(f"next: {there}tunebuild test, then tunebuild mint")
    return 0


def _add(options: argparse.Namespace) -> int:
    from tunebuild import manifest, scaffold

    found = manifest.read(options.root)
    known = tuple(family.name for family in found.families)
    for path in scaffold.add_family(found.project.file, found.project.templates, options.name, known):
        print(f"wrote {path}")
    print(
        f"next: write what {options.name} does into these files (they hold a dot product), then tunebuild test"
    )
    return 0


def _check(options: argparse.Namespace) -> int:
    from tunebuild import generate, manifest, report

    found = manifest.read(options.root)
    rendered = generate.check_templates(found)
    _answer(options, report.check_json(found, rendered), report.check_text(found, rendered))
    return 0


def _box(options: argparse.Namespace) -> int:
    from tunebuild import host, report

    facts = report.BoxFacts(host.box(), host.microarchitecture(), host.last_level_cache_bytes())
    _answer(options, report.box_json(facts), report.box_text(facts))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tunebuild import doctor, host

    now = host.conditions()
    _answer(options, asdict(now), doctor.text(now))
    return 0


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _status(options: argparse.Namespace) -> int:
    if not options.fleet and (said := memo.status(os.fspath(options.root), options.app)):
        _answer(options, said["document"], str(said["coloured" if _colour() else "text"]))
        return 0
    from tunebuild import flows, report

    if options.fleet:
        from tunebuild import commands_classes

        _answer(options, *commands_classes.fleet(options.root, options.app, options.fleet, colour=_colour()))
        return 0
    found, others = flows.status(options.root, options.app)
    text = report.status_text(found.stamps, found.states, marks=found.marks, colour=_colour())
    more = report.others_text(others)
    _answer(options, report.status_json(found.stamps, found.states), "\n".join(filter(None, (text, more))))
    return 0


def _why(options: argparse.Namespace) -> int:
    from tunebuild import flows, report

    found = flows.why(options.root, options.app, options.family)
    _answer(
        options,
        [report.why_json(one) for one in found],
        report.whys_text(found),
    )
    return 0


def _explain(options: argparse.Namespace) -> int:
    from tunebuild import flows

    found = flows.explain(options.root, options.row)
    _answer(options, found, "\n".join(f"{key + ':':<9}{value}" for key, value in found.items()))
    return 0


def _asm(options: argparse.Namespace) -> int:
    from tunebuild import flows

    print(flows.disassembly(options.root, options.row, say=_say))
    return 0


def _run(options: argparse.Namespace) -> int:
    from tunebuild import commands_rail

    return commands_rail.run(
        options.root,
        options.app,
        tuple(options.passed_on),
        tune=options.tune,
        only=",".join(options.tune_only),
        quiet=options.tune_quiet,
        verbose=options.tune_verbose,
        prepare=options.prepare,
        suppressed=options.no_mint,
        say=_say,
    )


def _release(options: argparse.Namespace) -> int:
    from tunebuild import commands_rail

    if options.quick and options.paranoid:
        _say("tunebuild: --paranoid asks for what --quick leaves out: --quick it is")
    document, text = commands_rail.release(
        options.root, options.app, quick=options.quick, output=options.output, say=_say
    )
    _answer(options, document, text)
    return 0


def _test(options: argparse.Namespace) -> int:
    from tunebuild import flows, testreport

    reports = flows.test(
        options.root,
        options.families,
        row=options.row,
        case=options.case,
        target=options.toolchain,
        sanitize=options.sanitize,
        say=_say,
    )
    _answer(options, testreport.document(reports), testreport.text(reports))
    return 1 if any(report.rejected or report.broken for report in reports) else 0


def _profile(options: argparse.Namespace) -> int:
    from tunebuild import commands_classes

    _answer(
        options,
        *commands_classes.profile(
            options.root, options.app, options.action, options.arguments, options.budget, options.scope
        ),
    )
    return 0


def _mint(options: argparse.Namespace) -> int:
    from tunebuild import children, display, mint, mintrecord, report

    if parent := os.environ.get(children.RELAYED, ""):
        children.end_with(int(parent))
    asked = mint.Asked(
        app=options.app,
        only=",".join(options.only) or os.environ.get("TUNEBUILD_ONLY", ""),
        stale=options.stale,
        record=Path(options.record).absolute() if options.record else None,
    )
    if options.dry_run:
        from tunebuild import generate

        generated = generate.generate(options.root)
        keys = mint.would_race(generated, generated.app(options.app), asked)
        _answer(options, {"seats": list(keys)}, "\n".join(keys) or "nothing to race")
        return 0
    word = (
        "silent"
        if options.quiet
        else "verbose"
        if options.verbose
        else os.environ.get("TUNEBUILD_VERBOSITY", "")
    )
    os.environ["TUNEBUILD_VERBOSITY"] = word  # tuners of a scope's own speak as loudly
    with display.display(word) as shown:
        finished = mintrecord.run(options.root, asked, shown, shown.build_line)
    text = [
        *finished.diff,
        report.status_text(finished.status.stamps, finished.status.states, colour=_colour()),
    ]
    minted = finished.minted
    if word != "silent":
        loud_pct = minted.loudest_pct if minted.word == "overridden" else None
        for line in report.mint_notes(minted.rejected, loud_pct):
            _say(f"tunebuild: {line}")
    empty = minted.empty_seats
    document = report.status_json(finished.status.stamps, finished.status.states)
    if options.json or word != "silent":
        _answer(options, document, "\n".join(text).rstrip("\n"))
    for key in empty:
        _say(f"tunebuild: no row of {key} passed; the reference body is recorded")
    codes = {code for _, code in finished.failed_tuners}
    if empty or codes - {REFUSED}:
        return WORK_FAILED
    return REFUSED if codes else 0


def _history(options: argparse.Namespace) -> int:
    from tunebuild import flows

    found = flows.mints(options.root, options.app)
    document = [{"when": each.when, "kind": each.kind, "path": str(each.path)} for each in found]
    _answer(options, document, "\n".join(f"{each.when}  {each.kind:<6}  {each.path}" for each in found))
    return 0


def _diff(options: argparse.Namespace) -> int:
    from tunebuild import flows

    lines = flows.compare_mints(options.root, options.app, options.a, options.b)
    _answer(options, {"lines": list(lines)}, "\n".join(lines))
    return 0


def _exchange(options: argparse.Namespace) -> int:
    from tunebuild import flows

    said = flows.exchanged(options.root, options.app, options.action, options.url, options.accept)
    _answer(options, {"action": options.action, "detail": said}, said)
    return 0


def _report(options: argparse.Namespace) -> int:
    from tunebuild import flows

    target = Path(options.output)
    flows.race_page(options.root, options.app, target)
    print(f"wrote {target}")
    return 0
