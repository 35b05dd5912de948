"""The cost of a decision by sequential tests in episodes, seconds and money. Pure.

Rates and costs are taken from an earlier run of the experiment, for an arm that it lacks from its control.
Without an earlier run they are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wirefault.experiments.experiment import AFTER, CONTROL, name_before_perturbation
from wirefault.experiments.index import RunCost
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.sequential import SequentialClaim, SequentialPlan
from wirefault.stats.rates import percent
from wirefault.stats.sequential import RunLength, run_length

# true rates, as distances from the threshold by the room above or below it, for which an estimate is shown
_EXAMPLES = (0.7, -0.15)
_MONEY = "cost"


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


def decision_lines(plan: ExperimentPlan, last: RunCost | None) -> Iterator[str]:
    """Yield what the decisions will cost, for people: a line per claim, then all of it."""
    sequential = plan.sequential
    if sequential is None:
        return
    cap, costs = len(sequential.prompts), claim_costs(plan, last)
    looks = "each episode" if sequential.every == 1 else f"each pass over the {sequential.every} prompts"
    yield f"until decided: looks after {looks}, at most {cap} episodes of an arm"
    for cost in costs:
        yield f"{cost.arm}: {cost.claim.text}: {_claim_text(sequential, cost)}"
    yield _total_text(plan, sequential, costs, last)


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


def _total_text(
    plan: ExperimentPlan, sequential: SequentialPlan, costs: list[ClaimCost], last: RunCost | None
) -> str:
    most = len(plan.arms) * len(sequential.prompts)
    if last is None or any(cost.length is None for cost in costs):
        return f"a decision costs: unknown; at most {most} episodes in all arms"
    episodes = dict.fromkeys(sequential.claims, 0)
    for cost in costs:
        if cost.length is not None:
            ends = sequential.blocks()
            block = next((end for end in ends if end >= cost.length.mean), len(sequential.prompts))
            episodes[cost.arm] = max(episodes[cost.arm], block)
    longest = max(episodes.values())
    episodes = {
        arm: longest if arm == sequential.control or not sequential.claims[arm] else count
        for arm, count in episodes.items()
    } | {AFTER: longest}
    total = sum(episodes.values())
    seconds = total * last.seconds / last.episodes
    money = _money(episodes, last)
    time = f"{seconds:.1f} s with --workers {last.workers}"
    return f"a decision costs about: {total} episodes in all arms, {time}, {money}"


def _money(episodes: Mapping[str, int], last: RunCost) -> str:
    total = _money_of(episodes, last)
    if total is None:
        return "money unknown (`prices` lacks a model, or its replies report no tokens)"
    return f"{total:.3g} USD"


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


def money_lines(plan: ExperimentPlan, last: RunCost | None) -> Iterator[str]:
    """Yield what a fixed number of episodes will cost, if the last run has its cost."""
    if last is None:
        return
    total = _money_of({arm.name: len(plan.prompts_of(arm)) for arm in plan.arms}, last)
    if total is not None:
        yield f"cost: about {total:.3g} USD, as in {last.experiment_id}"
