"""The planner: proposals for an agent by its memory, with hooks for the caller's own knowledge and risks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from wirefault.core.errors import InputError
from wirefault.core.plugins import checked_function_name, load_function
from wirefault.memory.episodes import Remembered
from wirefault.memory.knowledge import Knowledge, known_components
from wirefault.memory.planner.cells import DOSE_NAMES, Cell, cells_for
from wirefault.memory.planner.choose import DEFAULT_TERMS, Proposal, Terms, proposals
from wirefault.memory.planner.enhance import (
    Check,
    Enhancement,
    Metric,
    checks_for,
    enhanced,
    metrics_for,
    shortened,
    with_checks,
    within_safe_ranges,
)
from wirefault.memory.planner.evidence import clean_calls, clean_signs, evidence_in, signs_of
from wirefault.memory.planner.risk import Profile, Tally, four_part_score
from wirefault.memory.trials import Trial, trials_in

_T = TypeVar("_T")
RiskFactor = Callable[[Proposal], float]
"""Takes a proposal, and returns a risk in 0..1."""
BASE_CHECKS = ("no duplicate", "no false_success", "no misled", "crash == 0")
"""Of each proposal."""


@dataclass(frozen=True)
class NextExperiment:
    """A proposal as an experiment."""

    proposal: Proposal
    checks: tuple[Check, ...]
    metrics: tuple[Metric, ...]
    experiment: Mapping[str, Any]
    """The content of its file."""


class Planner:
    """Proposes experiments by remembered episodes.

    Custom knowledge, enhancements and risk factors belong to this object.
    """

    def __init__(
        self,
        episodes: Sequence[Remembered],
        own_outcomes: Mapping[str, str] = {},
        terms: Terms = DEFAULT_TERMS,
        *,
        every_question: bool = False,
    ) -> None:
        self._episodes = list(episodes)
        self._own_outcomes = own_outcomes
        self._terms = terms
        self._every = every_question
        self._knowledge: dict[str, Any] = {}
        self._enhancements: dict[str, Enhancement] = {}
        self._factors: dict[str, RiskFactor] = {}

    def add_custom_knowledge(self, name: str, value: Any) -> None:
        """Remember a value of the caller's by a name; ``critical`` are the components that are critical."""
        self._knowledge[name] = deepcopy(value)

    def get_custom_knowledge(self, name: str) -> Any:
        """A copy of the value of that name; None for an unknown one."""
        return deepcopy(self._knowledge.get(name))

    def add_custom_enhancement(self, name: str, fn: Enhancement) -> None:
        """Pass each proposed experiment through the function, after all others."""
        self._enhancements[name] = fn

    def add_custom_risk_factor(self, name: str, fn: RiskFactor) -> None:
        """Add the function's value to the scores of each risk, by that name."""
        self._factors[name] = fn

    @cached_property
    def _known(self) -> list[Knowledge]:
        return known_components(self._episodes)

    @cached_property
    def _links(self) -> list[Knowledge]:
        return [each for each in self._known if each.component.startswith("link ")]

    @cached_property
    def _trials(self) -> list[Trial]:
        return trials_in(self._episodes, self._own_outcomes)

    def cells(self, prompts: Sequence[str]) -> list[Cell]:
        """All cells of the calls that clean episodes of these prompts made."""
        return cells_for(clean_calls(self._episodes, prompts), every_question=self._every)

    def proposals(self, cells: Sequence[Cell], now: Mapping[str, Tally] = {}) -> Iterator[Proposal]:
        """Yield the cells that are worth an episode, the best first. ``now``: tallies beyond memory."""
        past = evidence_in(self._episodes, cells).tallies
        return map(self.scored, proposals(cells, past, now, self._terms))

    def scored(self, proposal: Proposal) -> Proposal:
        """The proposal with the four-part score and the caller's risk factors."""
        cell = proposal.cell
        known = [
            each for each in self._known if each.component == f"link {cell.link}" and each.fault == cell.fault
        ]
        parameters = {} if cell.dose is None else {cell.dose_name: float(cell.dose)}
        factors = {
            name: _called(f"risk factor {name}", lambda fn=fn: float(fn(proposal)))
            for name, fn in self._factors.items()
        }
        seconds = cell.seconds + self._clean_seconds
        scores = four_part_score(self._profile(known), parameters, seconds, factors)
        return replace(proposal, risk=replace(proposal.risk, scores=scores))

    def _profile(self, known: Sequence[Knowledge]) -> Profile:
        if not known:
            return Profile()
        k, n = (sum(getattr(each.with_fault, name) for each in known) for name in ("k", "n"))
        return Profile(
            success=k / n if n else 0.5,
            affected={a.component: -a.worked.value for each in known for a in each.affected},
            critical=tuple(self._knowledge.get("critical") or ()),
            safe={
                r.name: (r.survived.low, r.survived.high)
                for each in known
                for r in each.ranges
                if r.survived is not None
            },
            is_known=True,
        )

    @cached_property
    def _clean_seconds(self) -> float:
        seconds = [each.seconds for each in self._episodes if not each.faults and math.isfinite(each.seconds)]
        return max(seconds, default=0.0)

    def checks(self, proposal: Proposal) -> list[Check]:
        """The checks that past failures on the link call for."""
        return checks_for(self.failures_at(proposal.cell.link), self._clean_seconds)

    def failures_at(self, link: str) -> list[str]:
        """The signs of weakness in remembered episodes with a fault on the link."""
        ignored = clean_signs(self._episodes)
        faulted = [each for each in self._episodes if any(fault.link == link for fault in each.faults)]
        return list(dict.fromkeys(s for each in faulted for s in signs_of(each) if s not in ignored))

    def entries(self, cell: Cell) -> list[dict[str, Any]]:
        """The entries of the cell for a fault set, their numbers, except its dose, within survived ones."""
        entries = [deepcopy(dict(each)) for each in cell.entries]
        return entries if self._terms.beyond_safe else within_safe_ranges(entries, self._links, DOSE_NAMES)

    def experiment(
        self, data: Mapping[str, Any], proposal: Proposal, checks: Sequence[Check] | None = None
    ) -> NextExperiment:
        """The proposal as an experiment. ``data``: the agent and its prompts, which stay unchanged.

        ``checks``: instead of those that memory calls for. Raises ``InputError`` if an enhancement of the
        caller's does not return an experiment.
        """
        cell = proposal.cell
        checks = self.checks(proposal) if checks is None else checks
        whole = deepcopy({key: value for key, value in data.items() if key not in ("checks", "title")})
        risk = proposal.risk
        whole |= {
            "title": f"{cell.text}{f' ({cell.place})' if cell.place else ''}"[:120],
            "description": (
                f"{proposal.reason}: {proposal.because}. Risk of harm {risk.value:.0%}: {risk.evidence}."
            ),
            "only": list(cell.prompts[:1]),
            "repeats": max(1, self._terms.enough if proposal.reason != "unasked question" else 1),
            "method": {"faults": {"faults": self.entries(cell)}},
            "checks": list(BASE_CHECKS),
        }
        if isinstance(time := (whole.get("limits") or {}).get("time"), int | float):
            similar = [
                each
                for each in self._trials
                if each.experiment_type == cell.fault and each.target_component == f"link {cell.link}"
            ]
            whole["limits"]["time"] = shortened(float(time), similar)
        whole = with_checks(whole, checks)
        for name, enhance in self._enhancements.items():
            improved = _called(f"enhancement {name}", enhance, deepcopy(whole))
            if not isinstance(improved, Mapping):
                raise InputError(f"enhancement {name}: must return the experiment, not {improved!r:.60}")
            whole = dict(improved)
        return NextExperiment(proposal, tuple(checks), tuple(metrics_for(cell.link)), whole)

    def enhance(self, experiment: Mapping[str, Any], similar: Sequence[Trial] = ()) -> dict[str, Any]:
        """A copy of any experiment, improved by all that memory knows; see ``enhanced``."""
        return enhanced(
            experiment,
            self._links,
            similar,
            self._enhancements,
            beyond_safe=self._terms.beyond_safe,
        )


def _called(what: str, fn: Callable[..., _T], *values: Any) -> _T:
    try:
        return fn(*values)
    except Exception as error:  # the caller's own function may raise anything
        raise InputError(f"{what}: raised {type(error).__name__}: {error}") from error


def add_hooks(planner: Planner, names: Iterable[str]) -> None:
    """Call each function with the planner, so that it adds knowledge, enhancements and risk factors.

    ``names``: ``module:function`` or ``file.py:function``. Raises ``InputError``.
    """
    for name in names:
        try:
            function = load_function(checked_function_name(name))
        except ValueError as error:
            raise InputError(f"--hooks: {error}") from None
        _called(f"--hooks {name}", function, planner)
