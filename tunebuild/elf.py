"""What a row's object holds, read from the ELF file itself: no objdump, no readelf, no copy on a shelf.

A row may be code and constants only. Constructors would run at load, before any gate; an ifunc would choose
code behind our back; writable data is state that a race does not see. The digest of code with relocations
finds rows that the compiler turned into the same machine code.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_INIT_ARRAY, _SHT_PREINIT_ARRAY = 1, 2, 4, 8, 14, 16
_SHF_WRITE, _SHF_ALLOC = 1, 2
_SHN_UNDEF = 0
_STT_SECTION, _STT_GNU_IFUNC = 3, 10
_STB_LOCAL = 0
_CONSTRUCTORS = (".init_array", ".preinit_array", ".ctors", ".fini_array", ".dtors")
_WRITABLE_ALLOWED = (".data.rel.ro",)  # constants with addresses: written by the loader alone
_BITCODE = b"BC\xc0\xde"  # what clang writes under -flto
_SLIM = "__gnu_lto_slim"  # ... and the mark of what gcc writes
_NO_CODE = "its object holds no machine code: compile rows without -flto, or with -ffat-lto-objects beside it"
_UNLIKE_CODE = (".eh_frame", ".note", ".comment", ".debug")


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """``text_digest`` is equal for objects whose code, constants and relocations are equal."""

    constructors: bool
    ifuncs: tuple[str, ...]
    writable: tuple[str, ...]  # non-empty writable sections, with their size: ".bss (8 bytes)"
    text_digest: str
    defined: tuple[str, ...]  # global symbols
    undefined: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    binding: int
    section: int
    value: int


def scan_object(path: Path, suffix: str = "") -> ObjectFacts:
    """Facts of a relocatable ELF64 object. ``suffix``: the row's own, dropped from names in the digest.

    :raises ValueError: when the file is no little-endian ELF64 object, or a damaged one.
    """
    try:
        sections = _sections(path.read_bytes())
        symbols = _symbols(sections)
        digest = _text_digest(sections, symbols, suffix)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: a damaged object: {error}") from error
    shared = [symbol for symbol in symbols if symbol.binding != _STB_LOCAL and symbol.name]
    return ObjectFacts(
        constructors=any(section.size and section.name.startswith(_CONSTRUCTORS) for section in sections),
        ifuncs=tuple(symbol.name for symbol in symbols if symbol.kind == _STT_GNU_IFUNC),
        writable=tuple(
            f"{section.name} ({section.size} bytes)" for section in sections if _is_state(section)
        ),
        text_digest=digest,
        defined=tuple(symbol.name for symbol in shared if symbol.section != _SHN_UNDEF),
        undefined=tuple(symbol.name for symbol in shared if symbol.section == _SHN_UNDEF),
    )


def global_symbols(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """What an object defines and what it wants of others, at half the cost of all its facts.

    :raises ValueError: when the file is no little-endian ELF64 object, a damaged one, or one that holds a
        compiler's intermediate code alone.
    """
    try:
        sections = _sections(path.read_bytes())
        symbols = _symbols(sections)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: a damaged object: {error}") from error
    shared = [symbol for symbol in symbols if symbol.binding != _STB_LOCAL and symbol.name]
    if any(symbol.name == _SLIM for symbol in shared):
        raise ValueError(_NO_CODE)
    return (
        frozenset(symbol.name for symbol in shared if symbol.section != _SHN_UNDEF),
        frozenset(symbol.name for symbol in shared if symbol.section == _SHN_UNDEF),
    )


def _is_state(section: _Section) -> bool:
    alive = section.flags & _SHF_ALLOC and section.flags & _SHF_WRITE and section.size
    excused = section.name.startswith(_WRITABLE_ALLOWED + _CONSTRUCTORS)
    return bool(alive) and not excused


def _sections(data: bytes) -> list[_Section]:
    if data.startswith(_BITCODE):
        raise ValueError(_NO_CODE)
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian ELF64 object")
    offset, entry_size, count, names_at = struct.unpack_from("<Q10xHHH", data, 0x28)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, offset + entry_size * i) for i in range(count)]
    names = data[raw[names_at][4] : raw[names_at][4] + raw[names_at][5]]
    return [
        _Section(
            name=_text(names, header[0]),
            kind=header[1],
            flags=header[2],
            data=b"" if header[1] == _SHT_NOBITS else data[header[4] : header[4] + header[5]],
            size=header[5],
            link=header[6],
            info=header[7],
        )
        for header in raw
    ]


def _symbols(sections: list[_Section]) -> list[_Symbol]:
    for table in sections:
        if table.kind == _SHT_SYMTAB:
            names = sections[table.link].data
            return [
                _Symbol(_text(names, name), info & 15, info >> 4, index, value)
                for name, info, _, index, value, _ in struct.iter_unpack("<IBBHQQ", table.data)
            ]
    return []


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()


def _text_digest(sections: list[_Section], symbols: list[_Symbol], suffix: str) -> str:
    """Sections count by position, not by name: -ffunction-sections names one after its function."""
    order = {i: n for n, i in enumerate(i for i, section in enumerate(sections) if _is_code(section))}
    ending = f"__{suffix}" if suffix else ""
    hashed = hashlib.sha256()
    for i, n in order.items():
        section = sections[i]
        hashed.update(f"{n} {section.flags} {section.size}\n".encode() + section.data)
        for place, kind, target, addend in _relocations(sections, i):
            hashed.update(f"{place} {kind} {_role(symbols[target], order, ending)} {addend}\n".encode())
    return hashed.hexdigest()


def _is_code(section: _Section) -> bool:
    held = section.kind in (_SHT_PROGBITS, _SHT_NOBITS) and section.flags & _SHF_ALLOC and section.size
    return bool(held) and not section.name.startswith(_UNLIKE_CODE)


def _relocations(sections: list[_Section], of: int) -> Iterator[tuple[int, int, int, int]]:
    for section in sections:
        if section.kind == _SHT_RELA and section.info == of:
            for place, info, addend in struct.iter_unpack("<QQq", section.data):
                yield place, info & 0xFFFFFFFF, info >> 32, addend


def _role(symbol: _Symbol, order: dict[int, int], ending: str) -> str:
    if symbol.section == _SHN_UNDEF or symbol.section not in order:
        return symbol.name.removesuffix(ending)
    return f"{order[symbol.section]}+{symbol.value}"
