"""A family of two rows, u1 and u2, that change n floats in place, each by the macro STEP: its table and its files."""

from __future__ import annotations

_TABLE = """
[family.{name}]
module = "{module}"
prototype = "void {name}(float *y, size_t n)"
fallback = "u1"
[family.{name}.grid.axes]
u = [1, 2]
[family.{name}.args]
y = {{ inout = "f32[n]" }}
[family.{name}.workload.l1]
n = 4096
"""
_BODY = "{\n    for (size_t i = 0; i < n; i++) /* one by one */\n        y[i] = STEP(y[i]);\n}\n"


def table(name: str, module: str = "m") -> str:
    return _TABLE.format(name=name, module=module)


def files(name: str, head: str) -> dict[str, str]:
    """What lies in the family's folder; ``head`` defines STEP, or includes what does."""
    start = f"#include <stddef.h>\n{head}\n"
    return {
        "reference.c": f"{start}void {name}(float *y, size_t n)\n{_BODY}",
        "kernel.c.j2": f"{start}/* {{{{ u }}}} */\n{{{{ prototype }}}}\n{_BODY}",
    }
