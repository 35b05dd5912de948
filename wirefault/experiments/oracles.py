"""The prompts of a plan whose missing oracle a statement needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.experiments.expression import parse_expression
from wirefault.experiments.plan import ExperimentPlan
from wirefault.judging.oracle.outcome import OUTCOMES

# measures that an unjudged episode leaves open
_JUDGED = frozenset({"success_rate", "success_rate_low", "success_rate_high", "degradation", *OUTCOMES})
_COUNT_ALWAYS = frozenset({"unjudged", "invalid"})
_OF_CONTROL = "control_"
_MAX_NAMED = 8


def oracle_lines(plan: ExperimentPlan) -> Iterator[str]:
    """Yield a line if prompts have no oracle and statements need one: which, and what to add."""
    keys = _without_oracle(plan)
    statements = [f"{arm}: {text}" for arm, text in _needing(plan)]
    if not keys or not statements:
        return
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    named = f"{', '.join(keys[:_MAX_NAMED])}{more}"
    what = "prompt without `expect` leaves" if len(keys) == 1 else "prompts without `expect` leave"
    yield (
        f"missing oracle: {named}; {len(keys)} {what} open whether these hold: {'; '.join(statements)}."
        " Add `expect`, or choose other prompts with `only`"
    )


def _without_oracle(plan: ExperimentPlan) -> list[str]:
    """Return the keys of prompts without an oracle, each without its repetitions."""
    first: dict[tuple[str, int], str] = {}
    for prompt in plan.prompts:
        if prompt.expect is None:
            first.setdefault((prompt.text, prompt.place), prompt.key)
    return list(first.values())


def _needing(plan: ExperimentPlan) -> Iterator[tuple[str, str]]:
    """Yield arm and text of each statement that needs oracles."""
    for arm in plan.arms:
        for text in arm.hypothesis:
            names = {name.removeprefix(_OF_CONTROL) for name in parse_expression(text).names}
            if names & (_JUDGED - _COUNT_ALWAYS):
                yield arm.name, text
