"""One mint of one family by the shipped protocol, on a simulated box."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lab.box import Machine, ProbeBench, SimulatedBench
from tunebuild import noise
from tunebuild.drive import drive, race_heat
from tunebuild.heat import Heat, Outcome
from tunebuild.measure import Measure
from tunebuild.race import closed
from tunebuild.validate import Validation, settle, validate


@dataclass(frozen=True, slots=True)
class Minted:
    outcome: Outcome
    raced: Outcome  # before validation and the closing probe
    validation: Validation | None


def mint(machine: Machine, seed: int, incumbent: int | None, measure: Measure) -> Minted:
    """Probe, race, validate in fresh windows, probe again; the ceiling is overridden."""
    rng = random.Random(f"mint {seed}")
    box = SimulatedBench(machine, seed)
    probing = ProbeBench(box)
    threshold = noise.threshold_pct(measure)
    readings = [drive(probing, noise.probe("start", measure, threshold, seed, 1.0))]
    box.now_s += rng.uniform(0, 3)
    raced = race_heat(box, heat_of(machine, seed, incumbent), measure, noise.bar(readings, measure))
    box.now_s += rng.uniform(1, 10)
    outcome, validation = raced, None
    if raced.winner != raced.control:
        readings.append(drive(probing, noise.probe("validate", measure, threshold, seed + 1, 1.0)))
        box.previous = -1
        validation = drive(box, validate(raced, measure, noise.bar(readings, measure), seed + 2))
        outcome = settle(raced, validation)
    readings.append(drive(probing, noise.probe("end", measure, threshold, seed + 3, 1.0)))
    (outcome,) = closed([outcome], measure, noise.floor_pct(readings, measure))
    return Minted(outcome, raced, validation)


def heat_of(machine: Machine, seed: int, incumbent: int | None) -> Heat:
    count = len(machine.truth.gains_pct)
    return Heat(
        key=machine.truth.grid,
        rows=tuple(f"row{row}" for row in range(count)),
        controls=(machine.truth.fallback,),
        incumbent=incumbent,
        seed=seed,
    )
