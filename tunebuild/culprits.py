"""Which rows kept a tune build from linking, and why: by ninja's failures and by the symbols of the objects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tunebuild import codegen, graph, judge, plan, render
from tunebuild.broken import Broken, row_digest
from tunebuild.front import Failure, Ran
from tunebuild.generate import Generated
from tunebuild.model import REFERENCE
from tunebuild.plan import PlannedFunction


def find(generated: Generated, ran: Ran, known: Mapping[str, Broken]) -> dict[str, Broken]:
    """The rows to leave out of the link, by symbol. ``known``: those of the build before."""
    failed = {symbol(failure): failure.words.strip() for failure in ran.failures}
    fresh = frozenset((*ran.made, *ran.hits))
    binary = graph.moved(graph.tune_binary(generated.plan), generated.graph.folder)
    # A row's object may be older than this build, and have been linked nowhere beside others yet.
    linked = binary in fresh or any(failure.output == binary for failure in ran.failures)
    lacking = _undefined(generated, ran, known)
    found: dict[str, Broken] = {}
    for planned in generated.plan.families:
        for row in planned.built:
            for function in planned.functions:
                name = codegen.symbol(function.name, row.suffix)
                text = generated.files[codegen.row_path(planned.family.name, function.name, row.suffix)]
                digest = row_digest(text, plan.row_flags(planned.family, row))
                output = graph.moved(graph.object_path(planned.family.name, name), generated.graph.folder)
                if name in failed:
                    words = _from_template(generated, function, text, failed[name])
                    found[name] = Broken(digest, "compile", words)
                elif lacking and (called := judge.symbols(generated.root / output)[1] & lacking):
                    lacks = tuple(sorted(called))
                    why = f"it calls {', '.join(lacks)}, which nothing defines: misspelt, or not included"
                    found[name] = Broken(digest, "calls", why, lacks)
                elif linked or output in fresh:
                    if fault := judge.symbol_fault(generated.root / output, name):
                        found[name] = Broken(digest, "symbols", fault)
                elif name in known and known[name].kind == "symbols" and known[name].digest == digest:
                    found[name] = known[name]
    return found


def explained(generated: Generated, ran: Ran) -> Ran:
    """The same run, its failures headed by what people wrote: the template's line that does not compile, the
    reference that lacks its function, the app without a `main`."""
    if not ran.failures:
        return ran
    rows = {
        codegen.symbol(function.name, row.suffix): (planned, function, row)
        for planned in generated.plan.families
        for row in planned.built
        for function in planned.functions
    }

    def words(failure: Failure) -> str:
        if made := rows.get(symbol(failure)):
            planned, function, row = made
            text = generated.files[codegen.row_path(planned.family.name, function.name, row.suffix)]
            return _from_template(generated, function, text, failure.words)
        lacking = _UNDEFINED.findall(failure.words)
        head = (why for name in dict.fromkeys(lacking) if (why := _unwritten(generated, name)))
        return "\n".join((*head, failure.words))

    return replace(ran, failures=tuple(replace(each, words=words(each)) for each in ran.failures))


def _unwritten(generated: Generated, name: str) -> str:
    """Why a link lacks a symbol that people were to write; "" for any other."""
    if name == "tb_app_main":
        return "error: no source of the app defines `main`"
    own, _, row = name.partition("__")
    functions = (function for planned in generated.plan.families for function in planned.functions)
    found = next((one for one in functions if row == REFERENCE and one.name == own), None)
    if found is None:
        return ""
    file = os.path.relpath(found.reference, generated.manifest.project.root)
    return f"{file}: error: it does not define {own}, or not for others to call"


def symbol(failure: Failure) -> str:
    """The symbol of the row whose edge failed."""
    return Path(failure.output).name.removesuffix(".o")


_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?([\w.$]+)")


def _undefined(generated: Generated, ran: Ran, known: Mapping[str, Broken]) -> frozenset[str]:
    """Symbols that nothing defines: those that the link names, and those known for it, unless an object that is
    no row's defines them by now."""
    binary = graph.moved(graph.tune_binary(generated.plan), generated.graph.folder)
    named = {
        name
        for failure in ran.failures
        if failure.output == binary
        for name in _UNDEFINED.findall(failure.words)
    }
    before = {name for row in known.values() for name in row.lacks}
    if before:
        rows = {edge.output for edge in generated.graph.edges if edge.symbol}
        for path in set(generated.graph.by_output()[binary].inputs) - rows:
            before -= judge.symbols(generated.root / path)[0]
    return frozenset(named | before)


_COMPLAINT = re.compile(r"^[^\s:]+:(\d+):(?:\d+:)? (?:fatal )?error: (.+)$", re.M)


def _from_template(generated: Generated, function: PlannedFunction, text: str, words: str) -> str:
    """A compiler's words, headed by the template's line that printed what it complains of first, if one line can
    be told."""
    complaint, template = _COMPLAINT.search(words), function.template
    if complaint is None or template is None or f"{function.name}__" not in complaint[0]:
        return words
    line = text.splitlines()[int(complaint[1]) - 1 : int(complaint[1])]
    place = render.origin(function.family.project.templates, template, line[0]) if line else None
    if place is None:
        return words
    file = os.path.relpath(place[0], generated.manifest.project.root)
    return f"{file}:{place[1]}: error: {complaint[2]}\n{words}"
