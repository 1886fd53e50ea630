"""The innermost loops of an object's functions, read from their disassembly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Products of one instruction for each lane of 32 bits.
PRODUCTS = {"vfmadd": 1, "vfnmadd": 1, "vpmaddwd": 2, "vpdpwssd": 2, "vdpbf16ps": 2, "vpdpbusd": 4}
TILE_PRODUCTS = {"tdpbf16ps": 16 * 16 * 32, "tdpb": 16 * 16 * 64}
LANES = {"%zmm": 16, "%ymm": 8, "%xmm": 4}


@dataclass(frozen=True, slots=True)
class Instruction:
    address: int
    name: str
    operands: str
    frame: str = "%rsp"  # what spills are addressed from: registers, as a regular expression

    @property
    def products(self) -> int:
        for name, count in TILE_PRODUCTS.items():
            if self.name.startswith(name):
                return count
        each = next((count for name, count in PRODUCTS.items() if self.name.startswith(name)), 0)
        scalar = self.name.endswith("ss") and self.name != "vdpbf16ps"
        return each * (1 if scalar else self.lanes)

    @property
    def lanes(self) -> int:
        """Lanes of 32 bits of its widest register; 0 for an instruction on none."""
        return next((count for register, count in LANES.items() if register in self.operands), 0)

    @property
    def stack(self) -> bool:
        """A vector or a tile to or from the stack."""
        return bool(
            re.search(rf"\((?:{self.frame})\)", self.operands) and re.search(r"%[xyzt]mm", self.operands)
        )

    @property
    def vector_store(self) -> bool:
        return bool(re.fullmatch(r"%[xyz]mm\d+,.*\(.*\).*", self.operands)) and "mov" in self.name


@dataclass(frozen=True, slots=True)
class Loop:
    """One turn of it, from its first instruction to the jump back."""

    function: str
    body: tuple[Instruction, ...]

    @property
    def products(self) -> int:
        return sum(each.products for each in self.body)

    @property
    def product_instructions(self) -> int:
        return sum(each.products > 0 for each in self.body)

    @property
    def stored(self) -> int:
        """Lanes of 32 bits that are stored elsewhere than on the stack."""
        return sum(each.lanes for each in self.body if each.vector_store and not each.stack)

    @property
    def spilled(self) -> int:
        return sum(each.stack for each in self.body)


def innermost(path: Path, objdump: str = "objdump") -> list[Loop]:
    """The loops that have no loop within."""
    words = [objdump, "-d", "--no-show-raw-insn", str(path)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [loop for name, body in _functions(text) for loop in _loops(name, body)]


def _functions(text: str) -> Iterator[tuple[str, list[Instruction]]]:
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text):
        if name := re.match(r"[0-9a-f]+ <([^>]+)>:", part):
            found = re.findall(
                r"^ *([0-9a-f]+):\t(?:(?:rep|repz|notrack|lock|\{vex\}) +)?(\S+) *(.*)$", part, re.M
            )
            frame = "%rsp|%rbp" if re.search(r"mov +%rsp,%rbp", part) else "%rsp"
            yield name[1], [Instruction(int(at, 16), word, rest.strip(), frame) for at, word, rest in found]


def _loops(name: str, body: Sequence[Instruction]) -> Iterator[Loop]:
    places = {each.address: number for number, each in enumerate(body)}
    spans = []
    for number, each in enumerate(body):
        target = re.match(r"([0-9a-f]+) <", each.operands)
        if each.name.startswith("j") and target:
            start = places.get(int(target[1], 16), number + 1)
            if start <= number and not any(one.name.startswith("ret") for one in body[start:number]):
                spans.append((start, number))
    for start, end in spans:
        if not any(start <= first and last <= end and (first, last) != (start, end) for first, last in spans):
            yield Loop(name, tuple(body[start : end + 1]))
