"""Row 22 and a half of row 23: projects that wish us ill, and tune.toml files that are made up or mutated."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faultlab.common import PROJECT, ROOT, Result, Tally, environment, missing, small, workshop
from tunebuild import manifest
from tunebuild.errors import ConfigError
from tunebuild.model import Manifest

MOST_S = 1.0  # of processor time for one mistake, beside what the command takes to start
START_S = 1.0

# --- whole projects -------------------------------------------------------------------------------

_FLAGS = (
    "-fplugin=x.so", "@file", "-B/tmp", "-wrapper", "-specs=x", "-o", "-c", "-MF", "-Xclang", "--config=x",
    "-save-temps", "-fuse-ld=x", "-DX=\\n",
)  # fmt: skip
_NAMES = (
    "a b",
    "a$b",
    "a\\nb",
    "a:b",
    "../a",
    "a/b",
    "\\u0430",
    "",
    "-a",
    "a;b",
    "a'b",
    "{{ 1 }}",
    "a|b",
    "a\\\\b",
)
_PATHS = (
    "../secret.c",
    "/etc/passwd",
    "dot_f32/../../../../secret.c",
    "dot_f32/link.c",
    "dot_f32/loop.c",
    "a\\nb",
)
_FILES: Mapping[str, bytes] = {
    "arrays nested 500 deep": b"a = " + b"[" * 500 + b"]" * 500,
    "tables nested 500 deep": b"a = " + b"{a=" * 500 + b"1" + b"}" * 500,
    "a key of 20,000 parts": b".".join([b"a"] * 20_000) + b" = 1",
    "a header of 20,000 parts": b"[" + b".".join([b"a"] * 20_000) + b"]",
    "an integer of 5,000 digits": b"[project]\nname = " + b"9" * 5_000,
    "an integer of 10 MB": b"a = " + b"9" * 10_000_000,
    "a string of 10 MB": b'a = "' + b"9" * 10_000_000 + b'"',
    "17 MB": b"#" * 17_000_000,
    "NUL": b'[project]\nname = "a\0b"',
    "bytes that are no text": b"[project]\nname = '\xff\xfe'",
    "half a surrogate": b'[project]\nname = "\xed\xa0\x80"',
    "direction marks": '[project]\nname = "a\u202eb"\n'.encode(),
    "one letter of another script": '[project]\nname = "p"\n[f\u0430mily.dot]\n'.encode(),
    "a float that is too large": b"[project]\nname = 'p'\n[measure]\nmargin_pct = 1e999\n",
    "nothing": b"",
}
_TEMPLATES: Mapping[str, str] = {
    "loops without end": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "doubled text": "{% set s = namespace(x='ab') %}{% for i in range(40) %}{% set s.x = s.x ~ s.x %}{% endfor %}",
    "ten thousand million letters": "{% set x = 'a' * 10 ** 10 %}",
    "a format of a thousand million": "{{ '%9999999999d' % 1 }}",
    "a centred letter": "{{ 'a' | center(10 ** 10) }}",
    "a power": "{{ 10 ** 100000 }}",
    "a power of powers": "{{ 9 ** (9 ** 9) }}",
    "10 MB of C": "{{ 'a' * 10 ** 7 }}",
    "a huge range": "{{ range(10 ** 9) }}",
    "a macro without end": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "classes": "{{ ().__class__.__base__.__subclasses__() }}",
    "globals of a function": "{{ decline.__globals__ }}",
    "a file of the system": '{% include "/etc/passwd" %}',
    "a file outside": '{% include "../../../secret.c" %}',
    "a link to a file outside": '{% include "dot_f32/link.c" %}',
    "itself": '{% include "dot_f32/kernel.c.j2" %}',
}
_EXPRESSIONS = (
    "9 ** 9 ** 9 ** 9 > u",
    "__import__('os').system('touch /tmp/x')",
    "(" * 500 + "u" + ")" * 500,
    "u.__class__",
    "u << 10 ** 9",
)


@dataclass(frozen=True, slots=True)
class Case:
    """``harm`` makes a good project a hostile one; ``code``: how `build` must end, ``words``: what it must say."""

    name: str
    harm: Callable[[Path], None]
    words: str = r"tune\.toml:\d+:\d+: "
    code: int = 2


def _edited(old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / "tune.toml").read_text()
        assert old in text, old
        (root / "tune.toml").write_text(text.replace(old, new))

    return edit


def _holds(data: bytes) -> Callable[[Path], None]:
    return lambda root: (root / "tune.toml").write_bytes(data) and None


def _template(text: str) -> Callable[[Path], None]:
    return lambda root: (root / "kernels/templates/dot_f32/kernel.c.j2").write_text(f"\n{text}\n") and None


def _crlf(root: Path) -> None:
    text = (root / "tune.toml").read_bytes()
    (root / "tune.toml").write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))


def _cases() -> list[Case]:
    found = [Case(f"tune.toml: {name}", _holds(data)) for name, data in _FILES.items()]
    tables = {"app": 'kind = "static"', "toolchain": 'cc = "x"', "isa": "", "flags": "cflags = []"}
    for name in _NAMES:
        found.append(Case(f"family {name!r}", _edited("[family.dot_f32", f'[family."{name}"')))
        for table, body in tables.items():
            harm = _edited("[build]", f'[{table}."{name}"]\n{body}\n[build]')
            found.append(Case(f"{table} {name!r}", harm))
    for path in _PATHS:
        for key in ("reference", "template", "oracle"):
            harm = _edited("fallback =", f'{key} = "{path}"\nfallback =')
            found.append(Case(f"{key} {path!r}", harm))
    for flag in _FLAGS:
        found.append(Case(f"flag {flag!r}", _edited('"-std=c17"', f'"-std=c17", "{flag}"')))
    for text in _EXPRESSIONS:
        harm = _edited(
            "[family.dot_f32.args]", f'[family.dot_f32.grid]\nwhere = "{text}"\n[family.dot_f32.args]'
        )
        found.append(Case(f"where {text[:30]!r}", harm))
    for name, text in _TEMPLATES.items():
        found.append(Case(f"template: {name}", _template(text), r"kernel\.c\.j2(:\d+)*: "))
    found.append(Case("a byte order mark and CRLF", _crlf, code=0, words=""))
    return found


_FOLDERS = ("a b", "a$b", "a:b", "a|b", "a#b", "a'b\"c", "new\nline", "{{ 1 }}", "%d", "a;touch x")


def hostile(quick: bool) -> Result:
    """Row 22. A mistake with its place within a second; nothing outside the project's folder is read or written."""
    fault = "hostile tune.toml files, templates, names, paths and flags"
    if lacks := missing("unshare", "mount"):
        return Result(22, fault, 0, 0, skipped=lacks)
    tally, slowest = Tally(), 0.0
    with workshop() as folder:
        good = small(folder / "good")
        cases = _cases()
        for case in cases[::12] if quick else cases:
            why, seconds = _harmed(folder, good, case)
            slowest = max(slowest, seconds)
            tally.add(case.name, why)
        for name in _FOLDERS[:1] if quick else _FOLDERS:
            tally.add(f"a folder named {name!r}", _harmed(folder, good, Case(name, _nothing, "", 0), name)[0])
    return tally.result(22, f"{fault}; the slowest mistake took {slowest:.1f} s of processor time")


def _nothing(root: Path) -> None:
    pass


def _harmed(folder: Path, good: Path, case: Case, name: str = "project") -> tuple[str, float]:
    """What went wrong, and the processor time that `build` took. It runs where all but the project is read-only."""
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    root = place / name
    shutil.copytree(good, root)
    (place / "secret.c").write_text("SECRET\n")
    (root / "kernels/templates/dot_f32/link.c").symlink_to(place / "secret.c")
    (root / "kernels/templates/dot_f32/loop.c").symlink_to("loop.c")
    case.harm(root)
    before = _seen(root)
    before_s = _children_s()
    done = _alone(root, environment(folder, TUNEBUILD_CACHE="off", HOME=str(root)))
    seconds = _children_s() - before_s
    said = done.stdout + done.stderr
    if "Traceback" in said or done.returncode != case.code or not re.search(case.words, said):
        return f"exit {done.returncode}: {said[-300:]}", seconds
    if "SECRET" in said or any("SECRET" in text for text in _texts(root / "generated")):
        return "what stands outside was read", seconds
    if changed := sorted(name for name, facts in _seen(root).items() if before.get(name) != facts):
        return f"wrote {changed[0]}", seconds
    if case.code and seconds > START_S + MOST_S:
        return f"took {seconds:.1f} s of processor time", seconds
    return "", seconds


def _alone(root: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    script = (
        'mount --bind "$0" "$0" && mount -o remount,bind,ro / && mount -o remount,bind,ro /tmp 2> /dev/null; '
        'cd "$0" && touch /tmp/written 2> /dev/null && exit 99; exec "$@"'
    )
    words = ("unshare", "-rm", "sh", "-c", script, str(root), sys.executable, "-m", "tunebuild", "build")
    return subprocess.run(
        words, cwd=root, env=dict(env), capture_output=True, text=True, errors="replace", timeout=300, check=False,
    )  # fmt: skip


def _children_s() -> float:
    taken = os.times()
    return taken.children_user + taken.children_system


def _seen(root: Path) -> dict[str, bytes]:
    """Every file of the project but those that a build makes."""
    ours = ("build", "generated", "compile_commands.json")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] not in ours and path.is_file()
    }


def _texts(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]


# --- files in numbers -----------------------------------------------------------------------------

_TOKENS = (
    "[", "]", "[[", "]]", "{", "}", '"', "'", '"""', "'''", "=", ".", ",", "#", "\n", "\r", "\t", "\0",
    "\ufeff", "\u202e", "\u0430", "\\", "\\u0000", "\\ud800", "\\U00110000", "nan", "-inf", "1e999", "0x",
    "1_0", "9" * 40, "-0", "true", "1979-05-27", "25:61:61", "[project]", "[family.x]",
    "[[family.dot_f32.row]]", "[use.me]\npath = '.'", "[measure]\n", "\x7f",
)  # fmt: skip
_VALUES = (
    "0", "-1", "9223372036854775807", "1" + "0" * 30, "1e308", "nan", "true", '""', '"\\u0000"', '"../../x"',
    '"/etc/passwd"', "[]", "{}", "[[]]", '["a", 1]', "{ a = { b = { c = 1 } } }", '"u ** u ** u"',
    '"n*n*n*n"', '"a; b; a"', '"reference"', '"$(x)"', '"float f(void)"', '"void f(float *x, ...)"',
    '"-fplugin=x"', '["-O3", "@x"]', '"avx2|,fma"', '"{{ x }}"', "1979-05-27", "[1, 1]",
)  # fmt: skip


def mutated(quick: bool, tally: Tally) -> str:
    """tune.toml files, made up or mutated: each is a manifest that makes sense, or mistakes with their places."""
    chance, read = random.Random(2300), 0
    with workshop() as folder:
        bases = _bases(folder)
        words = sorted({word for text in bases.values() for word in re.findall(r"[\w.]+|\"[^\"\n]*\"", text)})
        number = 2_000 if quick else 50_000
        for index in range(number):
            root = chance.choice(list(bases))
            data = _mutant(chance, bases[root], chance.choice(list(bases.values())), words)
            why, valid = _read(root, data)
            read += valid
            tally.add(f"tune.toml {index} {data[:60]!r}", why)
    return f"{number:,} tune.toml files, {read:,} of them valid"


def _bases(folder: Path) -> dict[Path, str]:
    """Projects whose files are all there, and what their tune.toml holds."""
    shutil.copytree(ROOT / "tests/data/complete", folder / "complete")
    shutil.copytree(ROOT / "tests/data/mathlib", folder / "mathlib")
    shutil.copytree(PROJECT, folder / "own_clock")
    roots = [folder / "complete", folder / "own_clock", small(folder)]
    return {root: (root / "tune.toml").read_text() for root in roots}


def _mutant(chance: random.Random, text: str, other: str, words: list[str]) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(300))
    if chance.random() < 0.1:
        return _made_up(chance, words).encode(errors="surrogatepass")
    for _ in range(chance.choice((1, 1, 2, 3))):
        text = chance.choice(_MUTATIONS)(chance, text, other)
    data = bytearray(text.encode(errors="surrogatepass"))
    if data and chance.random() < 0.1:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _made_up(chance: random.Random, words: list[str]) -> str:
    """Tables of known words in no order, with values that hurt."""
    lines = []
    for _ in range(chance.randint(1, 12)):
        path = ".".join(chance.sample(words, chance.randint(1, 3)))
        lines.append(f"[{path}]" if chance.random() < 0.4 else f"{path} = {chance.choice(_VALUES)}")
    return "\n".join(lines)


def _cut(chance: random.Random, text: str, other: str) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + text[at + chance.randint(1, 60) :]


def _insert(chance: random.Random, text: str, other: str) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(_TOKENS) + text[at:]


def _splice(chance: random.Random, text: str, other: str) -> str:
    at, start = chance.randrange(len(text) + 1), chance.randrange(len(other))
    return text[:at] + other[start : start + chance.randint(1, 400)] + text[at:]


def _lines_moved(chance: random.Random, text: str, other: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            lines[one], lines[two] = lines[two], lines[one]
        case 1:
            lines.insert(one, lines[two])
        case 2:
            del lines[one]
    return "".join(lines)


def _valued(chance: random.Random, text: str, other: str) -> str:
    """Another value behind one of the equals signs."""
    places = [found.span(1) for found in re.finditer(r"= ([^\n,}]+)", text)]
    if not places:
        return text
    start, end = chance.choice(places)
    return text[:start] + chance.choice(_VALUES) + text[end:]


def _renamed(chance: random.Random, text: str, other: str) -> str:
    """One word of the file in the place of another."""
    places = [found.span() for found in re.finditer(r"\w+", text)]
    if not places:
        return text
    (start, end), (first, last) = chance.choice(places), chance.choice(places)
    return text[:start] + text[first:last] + text[end:]


_MUTATIONS = (_cut, _insert, _splice, _lines_moved, _valued, _renamed)


def _read(root: Path, data: bytes) -> tuple[str, bool]:
    """What is wrong with the answer, and whether the file is valid."""
    (root / "tune.toml").write_bytes(data)
    started = time.process_time()
    try:
        why, valid = _sensible(root, manifest.read(root)), True
    except ConfigError as error:
        unplaced = [
            m for m in error.mistakes if m.line < 1 or m.column < 1 or not m.what or "tune.toml" not in m.file
        ]
        why, valid = f"a mistake without a place: {unplaced[0]}" if unplaced else "", False
    except Exception as error:
        why, valid = f"raised {error!r}", False
    took = time.process_time() - started
    return why or (f"took {took:.1f} s" if took > MOST_S else ""), valid


def _sensible(root: Path, made: Manifest) -> str:
    """What no manifest may say: names that are none, a file outside the projects, two rows of one name."""
    for family in made.families:
        names = [row.suffix for row in family.rows]
        if not re.fullmatch(r"[A-Za-z_]\w*", family.name, re.A) or len(set(names)) < len(names):
            return f"family {family.name!r} with rows {names[:5]}"
    outside = [
        path for path in manifest.affected_files(made) if not path.resolve().is_relative_to(root.parent)
    ]
    return f"reads {outside[0]}" if outside else ""
