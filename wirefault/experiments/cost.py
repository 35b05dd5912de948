"""The cost of a plan in episodes, time and money: estimated before it runs, counted at its end. Pure.

Times and costs are taken from an earlier run of the experiment, for an arm that it lacks from its control.
What no run showed is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from wirefault.experiments.experiment import AFTER, CONTROL, name_before_perturbation
from wirefault.experiments.index import RunCost
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.sequential import SequentialClaim, SequentialPlan
from wirefault.judging.summary import counted
from wirefault.stats.rates import percent
from wirefault.stats.sequential import RunLength, run_length

# true rates, as distances from the threshold by the room above or below it, for which an estimate is shown
_EXAMPLES = (0.7, -0.15)
_MONEY = "cost"
_NONE: Mapping[str, int] = {}
NOT_YET = "it has not run here yet"
MIN_CONTROLS, _MAX_CONTROLS = 4, 8
"""Episodes of a search's control."""


class Cost(Struct, frozen=True, omit_defaults=True):
    """Episodes, time and money, one wording before, while and after."""

    episodes: int
    bound: str = ""
    """``about`` or ``at most``: how to read the episodes of an estimate; empty if they are exact."""
    seconds: float | None = None
    usd: float | None = None
    source: str = ""
    """Of an estimate: where its time and money are from, or why they are unknown."""
    is_rest: bool = False
    """Whether it is what is still to come, after some episodes."""
    tokens: str = ""
    """Those of models, where their price is unknown."""

    @property
    def text(self) -> str:
        """Return for example ``cost: at most 44 episodes, about 9.1 s, money unknown, as in ID``.

        What is still to come has ``left`` instead of ``cost``.
        """
        about = "about " if self.source or self.is_rest else ""
        count = counted(self.episodes, "episode")
        parts = [
            f"{self.bound} {count}".strip(),
            "time unknown" if self.seconds is None else f"{about}{self.seconds:.1f} s",
            "money unknown" if self.usd is None else f"{about}{self.usd:.3g} USD",
            self.source,
        ]
        text = ", ".join(filter(None, parts))
        return "; ".join(filter(None, (f"{'left' if self.is_rest else 'cost'}: {text}", self.tokens)))

    def after(self, spent: Cost) -> Cost:
        """Return what is left of it, at the pace so far as soon as there is one."""
        left = max(0, self.episodes - spent.episodes)

        def rest(before: float | None, so_far: float | None) -> float | None:
            if so_far is not None and spent.episodes:
                return left * so_far / spent.episodes
            return None if before is None else left * before / max(1, self.episodes)

        seconds, usd = rest(self.seconds, spent.seconds), rest(self.usd, spent.usd)
        return Cost(left, self.bound, seconds, usd, is_rest=True)


def taken(timing: Mapping[str, float]) -> Cost:
    """Return what a run took, by the ``timing`` of its result; money is unknown without ``usd``."""
    return Cost(int(timing.get("episodes", 0)), seconds=timing.get("seconds"), usd=timing.get("usd"))


def total(costs: Sequence[Cost]) -> Cost:
    """Return the cost of experiments together, which is unknown with an unknown part."""
    if len(costs) == 1:
        return costs[0]
    bounds, sources = {each.bound for each in costs}, {each.source for each in costs}
    seconds, money = [each.seconds for each in costs], [each.usd for each in costs]
    return Cost(
        sum(each.episodes for each in costs),
        next((bound for bound in ("at most", "about") if bound in bounds), ""),
        None if None in seconds else sum(filter(None, seconds)),
        None if None in money else sum(filter(None, money)),
        NOT_YET if NOT_YET in sources else "of all arms together" if any(sources) else "",
        any(each.is_rest for each in costs),
    )


def estimated(plan: ExperimentPlan, last: RunCost | None, done: Mapping[str, int] = _NONE) -> Cost:
    """Estimate what the plan costs, or what is left of it.

    ``last``: the experiment's last run; ``done``: the completed episodes of each arm.
    """
    counts, bound = _counts(plan, last)
    if plan.search:  # one count is of all arms that it adds
        control = done.get(CONTROL, 0) if CONTROL in counts else 0
        done = {CONTROL: control, plan.search["arm"]: sum(done.values()) - control}
    counts = {arm: max(0, count - done.get(arm, 0)) for arm, count in counts.items()}
    episodes, is_rest = sum(counts.values()), any(done.values())
    if last is None:
        return Cost(episodes, bound, source=NOT_YET, is_rest=is_rest)
    where = f"{counted(last.episodes, 'episode')} took {last.seconds:.1f} s with --workers {last.workers}"
    seconds = episodes * last.seconds / last.episodes
    source = f"as in {last.experiment_id}, where {where}"
    return Cost(episodes, bound, seconds, _money_of(counts, last), source, is_rest)


def _counts(plan: ExperimentPlan, last: RunCost | None) -> tuple[Mapping[str, int], str]:
    """Return the episodes of each arm, and whether they are exact."""
    if plan.search:
        return _search_counts(plan)
    sequential = plan.sequential
    if sequential is None:
        bound = "at most" if plan.experiment.until_decided else ""  # a tournament decides for its arms
        return {arm.name: len(plan.prompts_of(arm)) for arm in plan.arms}, bound
    costs = claim_costs(plan, last)
    if last is None or any(cost.length is None for cost in costs):
        return {arm.name: len(sequential.prompts) for arm in plan.arms}, "at most"
    episodes = dict.fromkeys(sequential.claims, 0)
    for cost in costs:
        if cost.length is not None:
            ends = sequential.blocks()
            block = next((end for end in ends if end >= cost.length.mean), len(sequential.prompts))
            episodes[cost.arm] = max(episodes[cost.arm], block)
    longest = max(episodes.values())
    counts = {
        arm: longest if arm == sequential.control or not sequential.claims[arm] else count
        for arm, count in episodes.items()
    }
    return counts | {AFTER: longest}, "about"


def _search_counts(plan: ExperimentPlan) -> tuple[Mapping[str, int], str]:
    """Return the episodes of a search: of its control, and of all arms that it may add."""
    search, terms = plan.search, plan.search["terms"]
    control = len(control_keys(plan))
    if search["kind"] == "pairs":
        return {CONTROL: control, search["arm"]: len(terms["rows"]) * int(terms["each"])}, ""
    if search["kind"] == "next":
        return {search["arm"]: int(terms["budget"])}, "at most"
    sets = 1 if search["kind"] == "limit" else int(terms["decisions"])
    return {CONTROL: control, search["arm"]: sets * int(terms["cap"])}, "at most"


def control_keys(plan: ExperimentPlan) -> list[str]:
    """Return the keys of the episodes of a search's control before any step."""
    prompts = int(plan.search["prompts"])
    most = prompts if plan.search["kind"] == "next" else _MAX_CONTROLS  # it needs the calls of each
    return [prompt.key for prompt in plan.prompts[: max(MIN_CONTROLS, min(prompts, most))]]


def _money_of(episodes: Mapping[str, int], last: RunCost) -> float | None:
    """The cost of so many episodes of each arm in USD; an arm that did not run costs what its likest does."""

    def each(arm: str) -> float | None:
        likest = (arm, name_before_perturbation(arm), CONTROL)
        known = (last.estimates.get(name, {}).get(_MONEY) for name in likest)
        return next((cost for cost in known if cost is not None), None)

    costs = [(count, each(arm)) for arm, count in episodes.items()]
    if any(cost is None for _, cost in costs):
        return None
    return sum(count * (cost or 0.0) for count, cost in costs)


# claims that a sequential test decides


@dataclass(frozen=True)
class ClaimCost:
    """How many episodes the decision about one claim takes."""

    arm: str
    claim: SequentialClaim
    rate: float | None
    """The true rate that it is computed for; None if unknown."""
    source: str
    length: RunLength | None


def claim_costs(plan: ExperimentPlan, last: RunCost | None) -> list[ClaimCost]:
    """Return the cost of each claim of the plan, which runs until decided."""
    sequential = plan.sequential
    assert sequential is not None
    return [
        _claim_cost(sequential, arm, claim, last)
        for arm, claims in sequential.claims.items()
        for claim in claims
    ]


def _claim_cost(
    sequential: SequentialPlan, arm: str, claim: SequentialClaim, last: RunCost | None
) -> ClaimCost:
    if last is None or claim.measure != "success_rate":
        return ClaimCost(arm, claim, None, "", None)
    of_arm = last.estimates.get(arm, {}).get(claim.measure)
    of_control = last.estimates.get(sequential.control, {}).get(claim.measure)
    rate = of_control if of_arm is None else of_arm
    if rate is None:
        return ClaimCost(arm, claim, None, "", None)
    source = last.experiment_id if of_arm is not None else f"the control of {last.experiment_id}"
    return ClaimCost(arm, claim, rate, source, _length(sequential, claim, rate))


def _length(sequential: SequentialPlan, claim: SequentialClaim, rate: float) -> RunLength:
    return run_length(rate, claim.threshold, len(sequential.prompts), sequential.every, sequential.alpha)


def claim_lines(plan: ExperimentPlan, last: RunCost | None) -> Iterator[str]:
    """Yield how many episodes the decisions take: when they are looked for, and a line per claim."""
    sequential = plan.sequential
    if sequential is None:
        return
    cap = len(sequential.prompts)
    looks = "each episode" if sequential.every == 1 else f"each pass over the {sequential.every} prompts"
    yield f"until decided: looks after {looks}, at most {cap} episodes of an arm"
    for cost in claim_costs(plan, last):
        yield f"{cost.arm}: {cost.claim.text}: {_claim_text(sequential, cost)}"


def _claim_text(sequential: SequentialPlan, cost: ClaimCost) -> str:
    if cost.length is not None and cost.rate is not None:
        length = cost.length
        within = f"; 9 of 10 decisions take at most {length.p90}" if length.p90 else ""
        undecided = f"; {percent(length.open)} stay undecided at the limit" if length.open > 0.005 else ""
        mean = math.ceil(length.mean)
        if_true = f"if the true rate is {percent(cost.rate)}, as in {cost.source}"
        return f"about {mean} episodes {if_true}{within}{undecided}"
    if cost.claim.measure != "success_rate":
        return "a decision takes an unknown number of episodes"
    examples = []
    for distance in _EXAMPLES:
        room = (1 - cost.claim.threshold) if distance > 0 else cost.claim.threshold
        rate = cost.claim.threshold + distance * room
        mean = math.ceil(_length(sequential, cost.claim, rate).mean)
        examples.append(f"about {mean} at a true rate of {percent(rate)}")
    return f"unknown, since it has not run here yet; {', '.join(examples)}"
