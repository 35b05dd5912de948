"""The end of ``wirefault demo``: the lab's agent and a careless one under the same faults, in three lines."""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wirefault.core.errors import UserError
from wirefault.core.interrupts import INTERRUPTED
from wirefault.core.lab_folder import lab_root
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.engine import LocalEngine, RunControl
from wirefault.experiments.experiment_file import load_experiments
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.run_experiment import run_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.next_command import why_line

DUEL = "experiments/duel.yaml"
SHIPPED, CARELESS = "as-it-ships", "careless"
_NAMES = {SHIPPED: "the lab's agent", CARELESS: "a careless one"}


@dataclass(frozen=True)
class Side:
    """The harmful episodes of one agent, by key."""

    n: int
    twice: tuple[str, ...]
    false: tuple[str, ...]

    @classmethod
    def of(cls, facts: ArmFacts) -> Side:
        return cls(len(facts.episodes), facts.keys("duplicate"), facts.keys("false_success", "misled"))

    @property
    def text(self) -> str:
        twice, false = (f"{len(keys)} of {self.n}" for keys in (self.twice, self.false))
        return f"wrote twice in {twice}, claimed falsely in {false}"


def run_duel(console: Console, run_id: str, environ: Mapping[str, str], toxiproxy: str) -> int:
    """Run the duel and print its lines; return ``INTERRUPTED``, or 0 whatever it showed.

    It is saved under an id before ``run_id``, so that ``latest`` remains the demo's run.
    """
    began = time.monotonic()
    try:
        [experiment] = load_experiments(lab_root() / DUEL)
        plan = plan_experiment(experiment, environ)
        saved = save(plan, id_before(run_id))
        choice = choose_toxiproxy(toxiproxy, plan.configuration.environ)
        result = run_experiment(saved, RunControl(choice, _quiet), LocalEngine())
    except (UserError, OSError) as error:
        print_to_stderr(f"no duel: {error}")
        return 0
    if result.code == INTERRUPTED:
        return INTERRUPTED
    arms = {arm.name for arm in result.arms}
    if result.judged is None or not {SHIPPED, CARELESS} <= arms:
        print_to_stderr(f"no duel: it did not run to its end; {result.saved.folder} has its output")
        return 0
    for line in duel_lines(saved, time.monotonic() - began):
        console.print(Text(line), soft_wrap=True)
    return 0


def _quiet(_: object) -> None:
    """The duel prints its three lines only."""


def id_before(run_id: str) -> str:
    """Return an id that sorts directly before a run's id."""
    head, _, suffix = run_id.rpartition("-")
    second = timegm(time.strptime(head, "%Y%m%d-%H%M%S"))
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(second - 1)) + suffix


def duel_lines(saved: SavedExperiment, seconds: float) -> list[str]:
    """Return a line for each agent, and one with the commands that show why."""
    recording = recording_of(saved)
    sides = {name: Side.of(recording.arms[name].facts) for name in (SHIPPED, CARELESS)}
    width = max(map(len, _NAMES.values()))
    lines = [f"duel  {_NAMES[name]:{width}}  {side.text}" for name, side in sides.items()]
    lines[1] += "  (blind retry, no keys)"
    examples = [*sides[CARELESS].twice[:1], *sides[CARELESS].false[:1]]
    whys = [why_line(saved.experiment_id, key, saved.logs, arm=CARELESS) for key in examples]
    commands = "; ".join(why if place == 0 else why.removeprefix("why: ") for place, why in enumerate(whys))
    return [*lines, f"{commands}  # {seconds:.0f} s, --no-duel leaves it out".lstrip()]
