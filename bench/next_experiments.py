"""The planner on simulated systems whose weaknesses are known.

``python -m bench.next_experiments [systems]`` prints the figures of docs/planner.md (200 systems by default).
Seeds are fixed, so that the figures are the same each time.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean

from wirefault.memory.planner.cells import Cell
from wirefault.memory.planner.choose import Terms, proposals
from wirefault.memory.planner.risk import Tally

FAULTS = [f"fault-{number}" for number in range(1, 7)]
LINKS = [f"link-{number}" for number in range(1, 5)]
DOSES = (1.0, 2.0, 3.0)
MAX_EPISODES = 2000
FIRST_SEED = 10_000
"""The planner's settings were chosen on seeds below it only."""
POPULATIONS = {
    "some faults harm": (0.6, 1.4),
    "few faults harm": (0.3, 1.7),
    "half the faults harm": (1.0, 1.0),
    "deterministic": (),
}
"""The beta distribution of a fault's rate of harm in a system; () of deterministic ones: each cell always
harms or never does."""


def simulated_cells() -> list[Cell]:
    """Six faults on four links; the last two have three doses each: 40 cells."""
    return [
        Cell(
            id=f"{fault}-{link}-{dose:g}",
            ladder=f"{fault}-{link}",
            rung=rung,
            text=f"{fault} on {link}",
            fault=fault,
            link=link,
            component=f"link {link}",
            entries=(),
            prompts=("p",),
            dose_name="dose",
            dose=dose,
        )
        for fault in FAULTS
        for link in LINKS
        for rung, dose in enumerate(DOSES if fault in FAULTS[-2:] else DOSES[:1])
    ]


@dataclass(frozen=True)
class Hidden:
    """A weakness: its ladder, the smallest rung at which it shows, and how often it does."""

    ladder: str
    rung: int
    rate: float

    def shows_in(self, cell: Cell) -> bool:
        return cell.ladder == self.ladder and cell.rung >= self.rung


def hidden_weaknesses(chance: Random) -> list[Hidden]:
    """Three: one that nearly always shows, one at the largest dose only, one in every second episode."""
    ladders = chance.sample([f"{fault}-{link}" for fault in FAULTS[:-2] for link in LINKS], 2)
    deep = chance.choice([f"{fault}-{link}" for fault in FAULTS[-2:] for link in LINKS])
    return [Hidden(ladders[0], 0, 0.9), Hidden(deep, len(DOSES) - 1, 0.9), Hidden(ladders[1], 0, 0.5)]


Choose = Callable[[Mapping[str, Tally]], Cell | None]


def planned(cells: Sequence[Cell]) -> Choose:
    """Choose as the planner does."""

    def choose(tallies: Mapping[str, Tally]) -> Cell | None:
        first = next(proposals(cells, {}, tallies, Terms(enough=20)), None)
        return None if first is None else first.cell

    return choose


def at_random(cells: Sequence[Cell], chance: Random) -> Choose:
    """Draw a cell at random, as tools without a memory do."""
    return lambda _: chance.choice(cells)


def episodes_until_all_show(weaknesses: Sequence[Hidden], choose: Choose, chance: Random) -> int:
    """Run episodes until each weakness has shown once; return their number."""
    tallies: dict[str, Tally] = {}
    open_ones = list(weaknesses)
    for count in range(1, MAX_EPISODES + 1):
        cell = choose(tallies)
        if cell is None:
            return MAX_EPISODES
        here = [each for each in weaknesses if each.shows_in(cell)]
        bad = any(chance.random() < each.rate for each in here)
        tallies[cell.id] = tallies.get(cell.id, Tally()) + Tally(1, int(bad), int(bad))
        if bad:
            open_ones = [each for each in open_ones if each not in here]
        if not open_ones:
            return count
    return MAX_EPISODES


def compare(systems: int) -> tuple[list[int], list[int]]:
    """The episodes that the planner and the random choice need, for each system."""
    cells = simulated_cells()
    planner, random = [], []
    for seed in range(FIRST_SEED, FIRST_SEED + systems):
        weaknesses = hidden_weaknesses(Random(f"system {seed}"))
        planner.append(episodes_until_all_show(weaknesses, planned(cells), Random(f"episodes {seed}")))
        draws = at_random(cells, Random(f"draws {seed}"))
        random.append(episodes_until_all_show(weaknesses, draws, Random(f"episodes {seed}")))
    return planner, random


@dataclass(frozen=True)
class Prediction:
    """A probability of harm before an episode, and what happened."""

    value: float
    harm: bool


def predictions(
    seeds: Iterable[int], harm_of_fault: tuple[float, ...], episodes: int = 80
) -> Iterator[Prediction]:
    """Predict each episode of the planner in systems whose faults harm some links more than others."""
    cells = simulated_cells()
    for seed in seeds:
        chance = Random(f"rates {seed}")
        of_fault = {fault: chance.betavariate(*harm_of_fault or (0.6, 1.4)) for fault in FAULTS}
        rates = {
            cell.id: min(1.0, of_fault[cell.fault] * chance.uniform(0.3, 1.3) * (1 + 0.3 * cell.rung))
            for cell in cells
        }
        if not harm_of_fault:
            rates = {cell: float(chance.random() < rate) for cell, rate in rates.items()}
        tallies: dict[str, Tally] = {}
        for _ in range(episodes):
            first = next(proposals(cells, {}, tallies, Terms(enough=6)), None)
            if first is None or first.cell.parts:
                break
            cell, risk = first.cell, first.risk
            harm = chance.random() < rates[cell.id]
            tallies[cell.id] = tallies.get(cell.id, Tally()) + Tally(1, int(harm), int(harm))
            yield Prediction(risk.value, harm)


def calibration(predicted: Sequence[Prediction]) -> dict[int, tuple[float, float, int]]:
    """By tenth of the predicted probability: the mean prediction, the share of harm, and n."""
    bins: defaultdict[int, list[Prediction]] = defaultdict(list)
    for each in predicted:
        bins[min(int(10 * each.value), 9)].append(each)
    return {
        number: (mean(each.value for each in of_bin), mean(each.harm for each in of_bin), len(of_bin))
        for number, of_bin in sorted(bins.items())
    }


def main(systems: int) -> None:
    planner, random = compare(systems)
    print(f"episodes until all three show: planner {mean(planner):.1f}, at random {mean(random):.1f}")
    fewer = sum(ours < theirs for ours, theirs in zip(planner, random, strict=True))
    print(f"the planner needs fewer in {fewer} of {systems} systems; at most {max(planner)}, {max(random)}")
    for name, harm_of_fault in POPULATIONS.items():
        predicted = list(predictions(range(FIRST_SEED, FIRST_SEED + systems), harm_of_fault))
        print(f"{name}: {len(predicted)} predictions")
        for number, (value, harm, n) in calibration(predicted).items():
            band = f"{number / 10:.1f} to {(number + 1) / 10:.1f}"
            print(f"  predicted {band}: {value:.3f}, happened {harm:.3f} ({n})")


if __name__ == "__main__":
    main(*[int(word) for word in sys.argv[1:2]] or [200])
