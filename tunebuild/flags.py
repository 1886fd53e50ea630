"""Compiler flags that a file may hold. What a flag may not do: run a program, read arguments from a file,
or take over the outputs that the build graph owns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tunebuild.positions import KeyPath
from tunebuild.records import Notes

_FORBIDDEN = re.compile(
    r"@.*|-{1,2}wrapper.*|-B.*|-{1,2}specs.*|-fplugin.*|-fpass-plugin.*|-load(=.*)?|-Xclang|--config.*"
    r"|-o.*|-[cES]|-M.*|--(dependencies|write-dependencies|output|compile|assemble|preprocess|plugin).*"
    r"|-save-temps.*|-dump.*|-no-canonical-prefixes|-fuse-ld=.*|-ld-path.*"
)
_ALLOWED = re.compile(r"-Bsymbolic.*|-Bstatic|-Bdynamic")


def check_flags(flags: Iterable[str], path: KeyPath, notes: Notes) -> None:
    """Note every flag that is forbidden or is no single flag."""
    for index, flag in enumerate(flags):
        if any(char < " " for char in flag) or not flag:
            notes.add((*path, index), "a flag that is empty or holds a control character", "remove it")
        elif _FORBIDDEN.fullmatch(flag) and not _ALLOWED.fullmatch(flag):
            fix = "remove it: the compiler may not run programs, read flag files or choose outputs"
            notes.add((*path, index), f"the flag `{flag}` is not allowed", fix)
