"""What an artifact says of itself: the generated status table, and an executable's main with the guard."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tunebuild import codegen, graph
from tunebuild.model import REFERENCE, App, Manifest, Stamps
from tunebuild.plan import Plan


def _c_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def sources(
    manifest: Manifest, app: App, stamps: Stamps, plan: Plan, environ: Mapping[str, str], frozen: bool
) -> dict[str, str]:
    """{path: C text} of the status table."""
    name = codegen.identifier(app.name)
    names = {family.name for family in codegen.app_families(manifest, app)}
    rows = "".join(
        f"    {{{_c_string(s.key)}, {_c_string(s.scope)}, {_c_string('' if s.suffix == REFERENCE else s.suffix)}, "
        f"{_c_string(s.source)}, {_c_string(os.path.basename(s.path))}}},\n"
        for s in stamps.seats
        if s.family in names
    )
    tuned = sum(s.source in ("manifest", "profile") for s in stamps.seats if s.family in names)
    text = f"""\
/* {app.name}: what each seat runs, on whose measurement. */
#include <stdio.h>
#include "tunebuild.h"

static const tb_tune_row rows[] = {{
{rows}}};

TB_EXPORT const tb_tune_row *{name}_tune_status(size_t *count);
TB_EXPORT const tb_tune_row *{name}_tune_status(size_t *count)
{{
    *count = sizeof rows / sizeof *rows;
    return rows;
}}

TB_EXPORT void {name}_log_tune_status(FILE *to, const char *app);
TB_EXPORT void {name}_log_tune_status(FILE *to, const char *app)
{{
    size_t count = sizeof rows / sizeof *rows;
    fprintf(to, "%s: tune status ({tuned}/%zu kernels tuned for this box):\\n", app, count);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "  %s: %s (%s)\\n", rows[i].family, rows[i].suffix[0] ? rows[i].suffix : "reference", rows[i].source);
}}
"""
    return {f"{codegen.GENERATED}/normal/{app.name}/status.c": text}


def app_sources(manifest: Manifest, app: App, files: Mapping[str, str]) -> graph.AppSources:
    folder = f"{codegen.GENERATED}/normal/{app.name}/"
    names = {family.name for family in codegen.app_families(manifest, app)}
    generated = tuple(
        path for path in files if path.startswith(folder) and Path(path).stem not in names
    )
    own = tuple(Path(os.path.relpath(path, manifest.project.root)).as_posix() for path in app.sources)
    include = tuple(f"-I{Path(os.path.relpath(path, manifest.project.root)).as_posix()}" for path in app.include)
    return graph.AppSources(generated, own, (*app.cflags, *include))
