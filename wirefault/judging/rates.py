"""Success rates of a run, and the population that their intervals describe. Pure.

The interval (Clopper-Pearson) assumes independent draws with the same probability of success. Prompts from
one source, each with separate fault draws, meet this; repeated or hand-picked prompts do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wirefault.judging.oracle.outcome import UNCOUNTED, is_success
from wirefault.stats.rates import Share, percent

if TYPE_CHECKING:
    from wirefault.history.events import EpisodeJudged, RunStarted
    from wirefault.history.judged_events import Claim, Outcome


@dataclass(frozen=True)
class Rate:
    """A success rate."""

    k: int  # successes
    n: int  # judged episodes
    planned: int
    rate: float | None
    low: float | None  # exact 95 % interval (Clopper-Pearson)
    high: float | None
    worst: float | None  # share of the planned episodes if all invalid, unjudged and missing ones had failed
    best: float | None  # the same if they had succeeded
    population: str = ""  # what the interval describes


CLAIM_WORDS: Mapping[Claim, str] = {
    "done": "said done",
    "failed": "said failed",
    "unsure": "was unsure",
    "unclear": "unclear",
    "none": "no answer",
}


@dataclass(frozen=True)
class UncheckedClaims:
    """The agent's claims in episodes without an oracle, which nothing checks."""

    n: int  # episodes
    counts: dict[Claim, int]
    done_rate: float | None  # share that said done
    low: float | None  # exact 95 % interval (Clopper-Pearson)
    high: float | None

    @property
    def headline(self) -> str:
        """``3 of 5 said done; not judged: no oracle``, in place of a success rate; empty without claims."""
        return f"{self._done}; not judged: no oracle" if self.n else ""

    @property
    def _done(self) -> str:
        return f"{self.counts.get('done', 0)} of {self.n} said done"

    @property
    def text(self) -> str:
        """``claims, not checked: 3 of 5 said done (60 %, 95 % interval 23 % to 88 %); 2 unclear``."""
        if self.done_rate is None or self.low is None or self.high is None:
            return ""
        shares = [percent(share, decimals=0) for share in (self.done_rate, self.low, self.high)]
        interval = f" ({shares[0]}, 95 % interval {shares[1]} to {shares[2]})" if self.n > 1 else ""
        others = ", ".join(
            f"{self.counts[claim]} {words}"
            for claim, words in CLAIM_WORDS.items()
            if claim != "done" and self.counts.get(claim)
        )
        return f"claims, not checked: {self._done}{interval}" + (f"; {others}" if others else "")


def unchecked_claims(claims: Iterable[Claim]) -> UncheckedClaims:
    """Count the claims of episodes without an oracle."""
    counts = Counter(claims)
    done = Share(counts["done"], counts.total())
    ordered = {claim: counts[claim] for claim in CLAIM_WORDS if counts[claim]}
    return UncheckedClaims(done.n, ordered, done.rate, *(done.interval() or (None, None)))


NO_CLAIMS = unchecked_claims(())


def is_unchecked_claim(outcome: str | None, claim: str, has_oracle: bool) -> bool:
    """Whether an ended episode without an oracle claims something; not if the lab failed."""
    is_pending = outcome == "unjudged" and claim == "none"
    return not has_oracle and outcome not in (None, "invalid") and not is_pending


def rate(outcomes: Sequence[Outcome], planned: int) -> Rate:
    """The success rate of these outcomes."""
    planned = max(planned, len(outcomes))
    share = success_share(outcomes)
    worst, best = Share(share.k, planned), Share(share.k + planned - share.n, planned)
    low, high = share.interval() or (None, None)
    return Rate(share.k, share.n, planned, share.rate, low, high, worst.rate, best.rate)


def success_share(outcomes: Iterable[Outcome]) -> Share:
    """The successes among the outcomes that count in a rate."""
    return Share.of(map(is_success, outcomes))


def rate_per_prompt(started: RunStarted, episodes: Sequence[EpisodeJudged]) -> Rate:
    """The headline rate: each prompt counts once, with all its attempts."""
    attempts = int(started.settings.get("prompt_limit", 1))
    return _run_rate(started, [(episode.prompt, episode.outcome) for episode in episodes], attempts)


def first_attempt_rate(started: RunStarted, episodes: Sequence[EpisodeJudged]) -> Rate:
    """The rate of the first attempts only."""
    return _run_rate(
        started,
        [(episode.prompt, episode.first_attempt_outcome or episode.outcome) for episode in episodes],
        1,
    )


def _run_rate(started: RunStarted, outcomes: Sequence[tuple[str, Outcome]], attempts: int) -> Rate:
    judged = [prompt for prompt, outcome in outcomes if outcome not in UNCOUNTED]
    return replace(
        rate([outcome for _, outcome in outcomes], started.prompts),
        population=_population(started, judged, attempts),
    )


def _population(started: RunStarted, judged: Sequence[str], attempts: int) -> str:
    """The end of the sentence "the interval describes ...". ``judged``: the prompts in the rate."""
    n = len(judged)
    if not n:
        return "nothing: no prompts could be judged"
    these = f"these {n}" if n > 1 else "this one"
    if started.prompts_source.picked:
        return f"{these} alone: hand-picked prompts are not a sample of other prompts"
    like = f"prompts like {these}" + ("" if n == started.prompts else " that could be judged")
    how_often = "once" if attempts == 1 else f"with up to {attempts} attempts"
    repeats = n - len(set(judged))
    too_narrow = f" ({repeats} here {'was' if repeats == 1 else 'were'}, so it may be too narrow)"
    return (
        f"{like}, drawn independently, each sent {how_often} under its own fault draws, with these settings"
        f" and this agent; not the same prompts sent again{too_narrow if repeats else ''}"
    )
