"""Templates to C: what a row sees, and how one that is wrong or hostile ends."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from tunebuild import prototype, render
from tunebuild.errors import Mistake
from tunebuild.model import Declined, Row

FUNCTION = prototype.parse("float f(const float *a, size_t n)")
ROW = Row("u4", (("u", 4),))


def rendered(folder: Path, text: str) -> str | Declined | Mistake:
    """One row of a template with ``text``, within the bounds."""
    (folder / "kernel.c.j2").write_text(text)
    render.forget()
    with render.bounded():
        return render.render_row(folder, folder / "kernel.c.j2", "f", FUNCTION, "f__u4", ROW)


def mistake(folder: Path, text: str) -> Mistake:
    try:
        found = rendered(folder, text)
    except render.Boundless as error:
        found = error.mistake
    assert isinstance(found, Mistake)
    return found


def test_row_sees_its_symbol_prototype_family_suffix_and_values(tmp_path: Path) -> None:
    text = "{{ fn }} {{ prototype }} {{ family }} {{ suffix }} {{ u * 2 ** 3 }}"
    assert rendered(tmp_path, text) == "f__u4 float f__u4(const float *a, size_t n) f u4 32"


def test_row_may_decline(tmp_path: Path) -> None:
    assert rendered(tmp_path, '{% if u > 2 %}{{ decline("too wide") }}{% endif %}') == Declined("too wide")


def test_undefined_name_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    found = mistake(tmp_path, "a\nb {{ lanes }}\n")
    assert (found.line, "'lanes' is undefined" in found.what) == (2, True)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("lipsum(1)", "'lipsum' is undefined"),
        ("[1, 2, 3] | random", "No filter named 'random'"),
        ("joiner()", "a Joiner has no text in C"),
        ("range", "a function has no text in C"),
        ("decline", "a function has no text in C"),
    ],
)
def test_template_cannot_print_what_differs_between_two_renderings(
    tmp_path: Path, expression: str, words: str
) -> None:
    found = mistake(tmp_path, f"a\nb {{{{ {expression} }}}}\n")
    assert found.line == 2 and words in found.what


def test_template_cannot_format_what_has_an_address_either(tmp_path: Path) -> None:
    found = mistake(tmp_path, '/* {{ "%s" | format(range) }} */')
    assert "row u4: it prints <function safe_range at 0x" in found.what
    assert rendered(tmp_path, "/* <here at 0x10> */") == "/* <here at 0x10> */"


def test_template_prints_text_numbers_lists_and_what_macros_make(tmp_path: Path) -> None:
    text = (
        "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{% set comma = joiner('; ') %}"
        "{{ twice(u) }} {{ [1, 2] }} {{ none }} {{ u == 4 }} {% for i in range(3) %}{{ comma() }}{{ i }}{% endfor %}"
    )
    assert rendered(tmp_path, text) == "44 [1, 2] None True 0; 1; 2"


def test_undefined_name_inside_a_loop_is_at_its_own_place_with_what_may_be_meant(tmp_path: Path) -> None:
    found = mistake(
        tmp_path, "{% set lanes = 8 %}\n{% for i in range(2) %}\nlanse\n  {{ lanse }}\n{% endfor %}\n"
    )
    assert (found.line, found.column) == (4, 6)
    assert found.fix.startswith("did you mean lanes? a template sees: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "still rendering"),
        (
            "{% set s = namespace(x='ab') %}{% for i in range(40) %}{% set s.x = s.x ~ s.x %}{% endfor %}",
            "MB|still rendering",  # where memory is slow, time is the first bound
        ),
        ("{% set x = 'a' * 10 ** 10 %}", "MB"),
        ("{{ '%9999999999d' % 1 }}", "MB"),
        ("{{ 'a' | center(10 ** 10) }}", "MB"),
        ("{{ 10 ** 100000 }}", "a power of more than 4096 bits"),
        ("{{ 'a' * 10 ** 7 }}", "10000002 bytes of C"),
        ("{{ range(10 ** 9) }}", "Range too big"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "Recursion"),
        ("{{ ().__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{{ fn.__class__.__mro__ }}", "unsafe"),
    ],
    ids=lambda value: value[:24],
)
def test_template_that_would_never_end_or_fill_the_memory_is_a_mistake_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    found = mistake(tmp_path, f"\n{text}\n")
    assert any(word in found.what for word in words.split("|"))
    assert found.file.endswith("kernel.c.j2")


def test_limits_of_the_process_are_as_before_after_rendering(tmp_path: Path) -> None:
    limits, handler = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    mistake(tmp_path, "{% set x = 'a' * 10 ** 10 %}")
    assert resource.getrlimit(resource.RLIMIT_AS) == limits
    assert signal.getsignal(signal.SIGPROF) == handler
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.j2", "etc/passwd"])
def test_template_reads_no_file_outside_its_project(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.j2").write_text("secret")
    folder = tmp_path / "templates"
    folder.mkdir()
    found = mistake(folder, f'{{% include "{name}" %}}')
    assert "TemplateNotFound" in found.what


@pytest.mark.parametrize("name", ["kernel.c.j2", "part.j2"])
def test_template_that_is_a_link_within_its_project_is_read_and_one_out_of_it_says_where_to(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / "project"
    folder = root / "kernels/templates"
    folder.mkdir(parents=True)
    (root / "tune.toml").touch()
    (folder / "kernel.c.j2").write_text('{% include "part.j2" %}')
    for target in (root / "shared.j2", tmp_path / "secret.j2"):
        target.write_text("text")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        render.forget()
        found = render.render_row(folder, folder / "kernel.c.j2", "f", FUNCTION, "f__u4", ROW)
        if target.parent == root:
            assert found == "text"
        else:
            assert isinstance(found, Mistake)
            assert found.what == f"row u4: {name} is a link that leads out of the project, to {target}"
            assert found.fix == "copy that file into the project"


def test_template_includes_another_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "_lib").mkdir()
    (tmp_path / "_lib/two.j2").write_text("{% macro two() %}2{% endmacro %}")
    assert rendered(tmp_path, '{% from "_lib/two.j2" import two %}{{ two() }}') == "2"


def test_template_beside_the_templates_folder_is_read_when_it_is_declared(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (tmp_path / "other.c.j2").write_text("{{ u }}")
    render.forget()
    text = render.render_row(folder, tmp_path / "other.c.j2", "f", FUNCTION, "f__u4", ROW)
    assert text == "4"


@pytest.mark.parametrize("text", ["{% for i in range(lanse) %}x{% endfor %}", "a{{ '%d' % lanse }}"])
def test_undefined_name_given_to_a_function_is_named_with_what_may_be_meant(
    tmp_path: Path, text: str
) -> None:
    found = mistake(tmp_path, f"{{% set lanes = 8 %}}\n{text}\n")
    assert found.line == 2 and "'lanse' is undefined" in found.what
    assert found.fix.startswith("did you mean lanes? ")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("    size_t i = zero;", ("kernel.c.j2", 2)),
        ("    sum3 += load(a + i + 12);", ("kernel.c.j2", 4)),
        ("    return reduce(sum0);", ("tail.j2", 1)),
        ("}", None),
        ("    return twice;", None),
        ("    int elsewhere = 1;", None),
    ],
)
def test_line_of_c_is_traced_to_the_one_line_of_a_template_that_can_print_it(
    tmp_path: Path, line: str, place: tuple[str, int] | None
) -> None:
    kernel = tmp_path / "kernel.c.j2"
    kernel.write_text(
        "{{ prototype }} {\n    size_t i = zero;\n{% for j in range(u) %}\n"
        "    sum{{ j }} += load(a + i + {{ 4 * j }});\n{% endfor %}\n"
        '    return twice;\n    return twice;\n{% include "tail.j2" %}\n}\n'
    )
    (tmp_path / "tail.j2").write_text("    return reduce(sum0);\n")
    (tmp_path / "unrelated.j2").write_text("    int elsewhere = 1;\n")
    render.forget()
    found = render.origin(tmp_path, kernel, line)
    assert (found and (found[0].name, found[1])) == place
