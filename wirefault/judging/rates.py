"""Success rates of a run, and what their intervals speak of. Pure.

A Wilson interval holds for independent draws with one chance of success. Prompts of one source, each with
fault draws of its own, are such draws; a prompt that is sent again is none, and one that was picked is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wirefault.history.events import RunStarted
from wirefault.judging.judge import EpisodeJudgement
from wirefault.judging.oracle.outcome import OUTCOMES, Outcome
from wirefault.stats.rates import wilson


@dataclass(frozen=True)
class Rate:
    """A success rate over the ``n`` judged of ``planned`` episodes.

    ``low`` and ``high``: its Wilson 95 % interval, which speaks of ``population``. ``worst`` and ``best``:
    the share of the planned episodes if all that are invalid, unjudged or were not run had failed, and if
    all had succeeded.
    """

    k: int
    n: int
    planned: int
    rate: float | None
    low: float | None
    high: float | None
    worst: float | None
    best: float | None
    population: str = ""


@dataclass(frozen=True)
class Share:
    """``k`` successes of ``n`` judged episodes. It only describes them, so it has no interval."""

    k: int
    n: int
    rate: float | None


def rate(outcomes: Sequence[Outcome], planned: int) -> Rate:
    """The success rate of these outcomes; see ``Rate``."""
    planned = max(planned, len(outcomes))
    described = success_share(outcomes)
    k, n = described.k, described.n
    low, high = wilson(k, n) or (None, None)
    return Rate(
        k=k,
        n=n,
        planned=planned,
        rate=described.rate,
        low=low,
        high=high,
        worst=k / planned if planned else None,
        best=(k + planned - n) / planned if planned else None,
    )


def success_share(outcomes: Iterable[Outcome]) -> Share:
    """Of those outcomes that count in a rate, how many are a success."""
    judged = [outcome for outcome in outcomes if OUTCOMES[outcome].in_rate]
    k, n = judged.count("success"), len(judged)
    return Share(k, n, k / n if n else None)


def rate_per_prompt(started: RunStarted, episodes: Sequence[EpisodeJudgement]) -> Rate:
    """The headline: each prompt counts once, with all attempts at it."""
    attempts = int(started.settings.get("prompt_limit", 1))
    return _of_run(started, [(episode.prompt, episode.outcome) for episode in episodes], attempts)


def rate_of_first_attempts(started: RunStarted, episodes: Sequence[EpisodeJudgement]) -> Rate:
    """As if there had been no other attempt."""
    return _of_run(started, [(episode.prompt, episode.first_attempt_outcome) for episode in episodes], 1)


def _of_run(started: RunStarted, outcomes: Sequence[tuple[str, Outcome]], attempts: int) -> Rate:
    judged = [prompt for prompt, outcome in outcomes if OUTCOMES[outcome].in_rate]
    return replace(
        rate([outcome for _, outcome in outcomes], started.prompts),
        population=_population(started, judged, attempts),
    )


def _population(started: RunStarted, judged: Sequence[str], attempts: int) -> str:
    """The end of a sentence that begins with "the interval speaks of", true of this run.

    ``judged`` are the texts of the prompts in the rate.
    """
    n = len(judged)
    if not n:
        return "nothing: no prompt could be judged"
    these = f"these {n}" if n > 1 else "this one"
    if started.prompts_source.picked:
        return f"{these} alone: what is picked is not drawn, and stands for no other prompts"
    like = f"prompts like {these}" + ("" if n == started.prompts else " that could be judged")
    sent = "once" if attempts == 1 else f"with up to {attempts} attempts"
    repeats = n - len(set(judged))
    again = f" ({repeats} here {'is' if repeats == 1 else 'are'}, so it may be too narrow)" if repeats else ""
    return (
        f"{like}, drawn independently, each sent {sent} under fault draws of its own, with these settings and"
        f" this agent; not of the same prompts sent again{again}"
    )
