"""What `init` and `add family` write: files that build, pass the gate and can be raced as they are."""

from __future__ import annotations

from pathlib import Path

from tunebuild import emit, families, scopes
from tunebuild.errors import UsageError

PROJECT = """\
[project]
name = "{name}"

[build]
cflags = ["-O3", "-std=c17"]

{family}
"""

FAMILY = """\
[family.{name}]
prototype = "float {name}(const float *a, const float *b, size_t n)"
fallback = "isa_avx2_u4; isa_base_u4; reference"

[family.{name}.grid.axes]
isa = ["base", "avx2"]
u = [1, 2, 4, 8]

[family.{name}.args]
a = {{ in = "f32[n]" }}
b = {{ in = "f32[n]" }}

[family.{name}.workload.l1]
n = 4096
work = "2*n"

[family.{name}.check]
compare = {{ rtol = 1e-5, scale = "abs" }}
"""

REFERENCE_C = """\
/* The sum of a[i] * b[i]: what {name} means. Plain C, never edited per box. */
#include <stddef.h>

float {name}(const float *a, const float *b, size_t n)
{{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}}
"""

KERNEL_J2 = """\
{% set lanes = 8 if isa == "avx2" else 4 %}
/* {{ u }} independent sums of {{ lanes }} lanes; the tail is added one by one. */
typedef float vec __attribute__((vector_size({{ 4 * lanes }}), aligned(4)));

{{ prototype }}
{
{% for i in range(u) %}
    vec sum{{ i }} = {0};
{% endfor %}
    size_t i = 0;
    for (; i + {{ u * lanes }} <= n; i += {{ u * lanes }}) {
{% for j in range(u) %}
        sum{{ j }} += *(const vec *)(a + i + {{ j * lanes }}) * *(const vec *)(b + i + {{ j * lanes }});
{% endfor %}
    }
{% for j in range(1, u) %}
    sum0 += sum{{ j }};
{% endfor %}
    float sum = 0.0f;
    for (int lane = 0; lane < {{ lanes }}; lane++)
        sum += sum0[lane];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
"""

IGNORED = "/generated/\n/build/\n/dist/\n/tune-report.html\n*.tune.json\n*.tune.json.bak\n.*.lock\n"


def init(folder: Path) -> tuple[Path, ...]:
    """A new project in ``folder``; what was written, in order. Overwrites nothing.

    :raises UsageError: when a tune.toml is there already.
    """
    target = folder / "tune.toml"
    if target.exists():
        raise UsageError(
            "there is a tune.toml already", where=str(target), fix="tunebuild add family NAME adds to it"
        )
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in folder.absolute().name)
    project = name if name[:1].isalpha() and not scopes.shadows(name) else f"project_{name}"
    written = [target]
    emit.write_if_changed(target, PROJECT.format(name=project, family=FAMILY.format(name="dot_f32")))
    written += _kernel_files(folder / "kernels" / "templates", "dot_f32")
    ignore = folder / ".gitignore"
    if not ignore.exists():
        emit.write_if_changed(ignore, IGNORED)
        written.append(ignore)
    return tuple(written)


def _kernel_files(templates: Path, name: str) -> tuple[Path, ...]:
    written = []
    for path, text in (
        (templates / name / "reference.c", REFERENCE_C.format(name=name)),
        (templates / name / "kernel.c.j2", KERNEL_J2),
    ):
        if not path.exists():
            emit.write_if_changed(path, text)
            written.append(path)
    return tuple(written)


def add_family(file: Path, templates: Path, name: str, known: tuple[str, ...]) -> tuple[Path, ...]:
    """A new family's folder, and its table at the end of ``file``: comments and order stay as they are.

    :raises UsageError: when the name is taken or is no C identifier.
    """
    import tomlkit

    if problem := families.name_problem(name):
        what, fix = problem
        raise UsageError(what, where=f"add family {name}", fix=fix)
    if name in known:
        raise UsageError(f"there is a family {name} already", where=str(file), fix="choose another name")
    text = file.read_text()
    added = text.rstrip("\n") + "\n\n" + FAMILY.format(name=name)
    if name not in tomlkit.parse(added)["family"]:
        raise UsageError(f"[family.{name}] cannot be added", where=str(file), fix="add the table by hand")
    written = _kernel_files(templates, name)
    emit.write_durable(file, added.encode())
    return (file, *written)
