"""The table of figures: name, sentence, unit, value per episode, estimator, better direction. Pure.

A row here is all that a figure needs: statements, ``--json``, console, page, comparisons, docs read it.

An unjudged episode could have had any outcome that needs an oracle, but it did not crash, was no runaway, and
is no duplicate if its writes show that. The count of false successes also leaves ``failure`` open, whose
claim is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from msgspec import structs

from wirefault.experiments import estimators as by
from wirefault.experiments import measured as of
from wirefault.experiments.against_control import Loss, Rise, Slowdown
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Outcomes, Population, Rate, Terms
from wirefault.experiments.estimators import Estimator, Figure
from wirefault.experiments.expression import RATE, Truth, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.measure import Measure, Unit
from wirefault.experiments.tries import CONSISTENCY, tries_needed
from wirefault.history.judged_events import Claim, Outcome
from wirefault.judging.oracle.outcome import OUTCOMES, UNCOUNTED, is_success

# values of an episode


_WITHOUT_ORACLE: frozenset[Outcome] = frozenset({"crash", "runaway"})
# what an episode without an oracle can still be, by its claim; success is left open for all of them
_BY_CLAIM: Mapping[Claim, frozenset[Outcome]] = {
    "done": frozenset({"misled", "false_success"}),
    "failed": frozenset({"false_failure", "honest_failure"}),
    "unsure": frozenset({"unconfirmed", "honest_failure"}),
}
_SETTLED_BY_CLAIM = frozenset[Outcome]().union(*_BY_CLAIM.values())
# they differ in the claim, which `failure` lacks
_OF_CLAIMS: frozenset[Outcome] = frozenset({"false_success", "misled", "honest_failure"})


def _succeeded(episode: EpisodeFacts) -> Truth:
    return is_success(episode.judged.outcome)


def _failed(episode: EpisodeFacts) -> Truth:
    success = is_success(episode.judged.outcome)
    return None if success is None else not success


def _has_outcome(outcome: Outcome, episode: EpisodeFacts) -> Truth:
    """Whether it has this outcome; None if it could have."""
    actual = episode.judged.outcome
    if actual == outcome:
        return True
    if outcome == "duplicate" and episode.control.perhaps_repeated and actual not in UNCOUNTED:
        return None
    is_undecided = actual in UNCOUNTED or (actual == "failure" and outcome in _OF_CLAIMS)
    return None if is_undecided and not _excludes(episode, outcome) else False


def _excludes(episode: EpisodeFacts, outcome: Outcome) -> bool:
    """Whether an unjudged episode is known not to have that outcome, which comes before ``unjudged``."""
    judged, control = episode.judged, episode.control
    if judged.outcome != "unjudged":
        return False
    if outcome in _WITHOUT_ORACLE:
        return True
    if outcome in _SETTLED_BY_CLAIM and episode.is_unchecked and judged.claim in _BY_CLAIM:
        return outcome not in _BY_CLAIM[judged.claim]
    repeated = any(w.executed + w.maybe > 1 and w.same not in control.usual for w in episode.writes)
    proven = judged.world != "unknown" and not (control.perhaps_repeated or episode.unseen_writes or repeated)
    return outcome == "duplicate" and proven


def _tokens(episode: EpisodeFacts) -> float | str | None:
    costs = episode.judged.costs
    if costs.uncounted:
        return "no data"
    return float(costs.tokens or 0) if costs.replies else None


def _cost(episode: EpisodeFacts) -> float | str | None:
    costs = episode.judged.costs
    return "no data" if costs.uncounted or costs.unpriced else costs.usd


def _of_failed_tries(cost: str, why: str = "") -> Callable[[EpisodeFacts], float | str]:
    def value(episode: EpisodeFacts) -> float | str:
        if not episode.tries.whole:
            return "no data: not every episode shows which tries failed"
        known: float | None = getattr(episode.tries, cost)
        return f"no data: {why}" if known is None else known

    return value


def _overshoot(episode: EpisodeFacts) -> float | str:
    without = "no data: no budget of an episode, or one that could not be counted"
    return without if episode.overshoot is None else episode.overshoot


_RECOVERED: Mapping[str, Truth] = {"recovered": True, "not_recovered": False}


def _is_right(episode: EpisodeFacts) -> list[Truth]:
    if episode.judged.value == "not_applicable":
        return []
    return [None if episode.judged.value == "unreadable" else episode.judged.value == "right"]


def _is_complete(episode: EpisodeFacts) -> list[Truth]:
    judged = episode.judged
    if judged.world == judged.value == "not_applicable":
        return []
    if judged.world == "lost" or judged.value == "none":
        return [False]
    return [None if judged.world == "unknown" else True]


def _is_consistent(episode: EpisodeFacts) -> list[Truth]:
    judged = episode.judged
    if judged.world == "not_applicable":
        return []
    if judged.outcome == "duplicate" or judged.world in ("duplicated", "wrong", "extra"):
        return [False]
    return [None if judged.world == "unknown" or episode.control.perhaps_repeated else True]


_TRUE_CLAIMS: frozenset[Outcome] = frozenset({"success", "honest_failure", "unconfirmed"})
_FALSE_CLAIMS: frozenset[Outcome] = frozenset({"false_success", "false_failure", "misled"})


def _is_honest(episode: EpisodeFacts) -> list[Truth]:
    """Whether its claim is true, where it has one that can be checked."""
    is_checked = episode.judged.outcome in _TRUE_CLAIMS | _FALSE_CLAIMS
    return [episode.judged.outcome in _TRUE_CLAIMS] if is_checked else []


def _waits(episode: EpisodeFacts) -> list[Truth]:
    waited, refused = episode.retry_after
    return [place < waited for place in range(refused)]


# the table

DEGRADATION = "degradation"
SLOWDOWN = "recovery_slowdown"
BUDGET_STRIKES = "budget_strikes"
SUCCESS_SHARE = "success_share"
ADDED = "added_"
_CONTROL = "control_"
_MEAN, _COSTS = by.MeanOfEpisodes(), by.MeanOfEpisodes(rare=True, note=by.tries_note)
_REPEATS, _REACHED, _COUNT = by.OverRepeats(), by.ShareOfAsked(of_reached=True), by.Count()
_PLANNED = by.ShareOfPlanned()
_PASSED = by.ShareOfAsked("no episode has anything to judge")
_ALONE = by.Estimator()  # of one episode, not of an arm
_DUPLICATES = by.Count(why=lambda episode: episode.control.repeated or episode.control.perhaps_repeated)
_outages = attrgetter("outages.outages")


def _share(name: str, meaning: str, estimator: Estimator, value: Callable[[EpisodeFacts], Any]) -> Figure:
    oracle = value is _succeeded
    return Figure(name, meaning, estimator, value, "share", "higher", needs_oracle=oracle)


_ROWS = (
    _share("success_rate", "share of the planned episodes that are a success", _PLANNED, _succeeded),
    _share(
        SUCCESS_SHARE,
        "share of the judged episodes that are a success; for `steady_state`",
        by.ShareOfJudged(),
        _succeeded,
    ),
    _share(
        CONSISTENCY, "chance that two tries at a prompt both succeed or both do not", _REPEATS, _succeeded
    ),
    *(
        Figure(
            f"p{percent}",
            f"seconds that {'half' if percent == 50 else f'{percent} %'} of the attempts take at most",
            by.PercentileOfParts(percent),
            attrgetter("seconds"),
            "s",
        )
        for percent in (50, 95, 99)
    ),
    Figure(
        "seconds",
        "seconds of all attempts, per episode",
        _MEAN,
        lambda e: math.fsum(e.seconds),
        "s",
        of_one=of.seconds,
        needs="the end of the attempt",
    ),
    Figure("model_requests", "requests to the model, per episode", _MEAN, attrgetter("model_requests")),
    Figure(
        "tokens",
        "tokens in and out, per episode",
        _MEAN,
        _tokens,
        "tokens",
        of_one=partial(of.token_sum, of.ALL_TOKENS),
        needs=of.NEEDS_USAGE,
    ),
    Figure("cost", "USD per episode, where `prices` has all models", _MEAN, _cost, "USD"),
    Figure(
        "cost_of_faults_tokens",
        "tokens of failed tries, per episode",
        _COSTS,
        _of_failed_tries("tokens", "the tokens of a failed try are not known"),
        "tokens",
    ),
    Figure(
        "cost_of_faults_usd",
        "USD of failed tries, per episode, where `prices` has all models",
        _COSTS,
        _of_failed_tries("cost", "`prices` or the tokens of a failed try are not known"),
        "USD",
    ),
    Figure(
        "cost_of_faults_seconds",
        "seconds of failed tries, per episode, without the pauses between them",
        _COSTS,
        _of_failed_tries("seconds"),
        "s",
    ),
    Figure(
        "budget_overshoot",
        "share by which an episode exceeded its [budget](experiments.md#budgets), the one exceeded most",
        by.MeanOfEpisodes(rare=True, note=by.overshoot_note),
        _overshoot,
        "share",
    ),
    _share(
        "availability",
        "share of the logical calls that worked in the end, retries included",
        by.ShareOfParts("calls worked", "nothing was called"),
        lambda episode: [call.ok for call in episode.calls],
    ),
    Figure(
        "mttr",
        "mean seconds from a failure until the same request succeeded, as the caller saw it",
        by.MeanTime(),
        _outages,
        "s",
    ),
    *(
        Figure(
            f"mttr_p{percent}",
            f"seconds within which {percent} % of the failures recovered; others are censored (Kaplan-Meier)",
            by.PercentileOfTimes(percent),
            _outages,
            "s",
        )
        for percent in (50, 90, 95, 99)
    ),
    _share(
        "recovery_rate",
        "share of the failures after which the same request succeeded",
        by.ShareOfParts("recovered", "nothing failed", "what failed in it"),
        lambda episode: [_RECOVERED.get(outage.end) for outage in _outages(episode)],
    ),
    _share("recovery_correctness", "share of the reached episodes whose value is right", _REACHED, _is_right),
    _share(
        "recovery_completeness",
        "share of the reached episodes that lack nothing: no effect, no value",
        _REACHED,
        _is_complete,
    ),
    _share(
        "recovery_efficiency",
        "share of the tries in reached episodes that worked",
        by.ShareOfParts("tries worked", "no fault reached an episode", of_reached=True),
        lambda e: [False] * e.tries.failed + [True] * (e.tries.tries - e.tries.failed),
    ),
    _share(
        "recovery_consistency",
        "share of the reached episodes whose world has nothing twice, wrong or extra",
        _REACHED,
        _is_consistent,
    ),
    _share(
        "honest",
        "share of the episodes with a claim that can be checked whose claim is true",
        by.ShareOfAsked(),
        _is_honest,
    ),
    _share(
        "retry_after_kept",
        "share of the refused requests sent again that waited for at least 90 % of Retry-After",
        by.ShareOfParts("waited", "nothing refused with Retry-After was sent again"),
        _waits,
    ),
    Figure(
        "requests_per_call",
        "requests for each logical call; 1: no retries",
        by.PerCall(),
        lambda episode: (episode.tries.tries, len(episode.calls)),
    ),
    Figure(
        "amplification",
        "requests for each logical call of which the first one failed, by SDK, code, repeated steps and model"
        " together; 1: no retries",
        by.Amplification(),
        attrgetter("failed_calls"),
    ),
    Figure(
        "faults_delivered",
        "faults that reached their target",
        by.Sum(of_run=True, shows_episodes=False),
        lambda episode: (episode.judged.delivered(), episode.judged.delivered(None) > 0),
        better="",
        of_one=of.faults_delivered,
        needs="for toxics, a subject that records its tries, or the ingress",
    ),
    Figure(
        "budgets_spent",
        "budgets that a request exceeded, once per episode",
        by.Sum(),
        attrgetter("budgets_spent", "budgets_unknown"),
    ),
    Figure(
        BUDGET_STRIKES,
        "requests that a budget refused or slowed, and episodes that it ended",
        by.Sum(shows_episodes=False),
        lambda episode: (episode.budget_strikes, False),
    ),
    Figure("findings", "findings of the rules", by.Sum(), lambda e: (len(e.findings), False)),
    *(
        Figure(
            name,
            f"episodes: {row.meaning}",
            _DUPLICATES if name == "duplicate" else _COUNT,
            partial(_has_outcome, name),
            better="higher" if name == "success" else "lower",
            needs_oracle=name not in (*UNCOUNTED, *_WITHOUT_ORACLE, "duplicate"),
        )
        for name, row in OUTCOMES.items()
    ),
    Figure(
        "failures",
        "episodes: all that are not a success",
        by.Count(with_interval=False),
        _failed,
        needs_oracle=True,
    ),
    Figure("all", "episodes: all planned ones, as in `success == all`", by.Planned(), better=""),
)
_OF_ONE = (
    Figure(
        "model_calls",
        "requests to models, with an SDK's retries",
        _ALONE,
        of_one=of.model_calls,
        needs=f"a link to a model in the wiring; {of.NEEDS_REQUESTS}",
    ),
    Figure(
        "failed_calls",
        "requests to models and tools that failed for the subject: an error, or no whole reply",
        _ALONE,
        of_one=of.failed_calls,
        needs=of.NEEDS_REPLIES,
    ),
    *(
        Figure(name, meaning, _ALONE, unit="tokens", of_one=of_one, needs=of.NEEDS_USAGE)
        for name, meaning, of_one in (
            ("tokens_in", "tokens of the requests to models", partial(of.token_sum, attrgetter("tokens_in"))),
            ("tokens_out", "tokens of the models' replies", partial(of.token_sum, attrgetter("tokens_out"))),
            ("call_tokens", "tokens in and out of the largest model call", of.largest_call),
        )
    ),
)
OF_EPISODES: Mapping[str, Figure] = {row.name: row for row in (*_ROWS, *_OF_ONE) if row.of_one}
"""The figures that statements about one episode may use."""
FIGURES: Mapping[str, Figure] = {row.name: row for row in _ROWS}
PER_EPISODE = {row.name: row.estimator for row in _ROWS if isinstance(row.estimator, by.MeanOfEpisodes)}
"""The means per episode, of which each has a paired difference to the control."""
AGAINST_CONTROL: Mapping[str, Figure] = {
    row.name: row
    for row in (
        Figure(
            DEGRADATION,
            "loss of the success rate against the control arm",
            Loss(),
            unit="share",
            needs_oracle=True,
        ),
        Figure(
            SLOWDOWN,
            "seconds of the reached episodes, by those of the same episodes in the control",
            Slowdown(),
        ),
        *(Figure(f"{ADDED}{name}", "", Rise(name), unit=FIGURES[name].unit) for name in PER_EPISODE),
    )
}
RATES = "share of the episodes that pass the check, such as `rate(completes)` or `rate(seconds <= 30)`"
PASSES = {
    "^": "chance that k tries at a prompt all succeed, such as `pass^3`; needs k repeats",
    "@": "chance that at least one of k tries at a prompt succeeds, such as `pass@2`",
}


def figure_named(name: str) -> Figure | None:
    """The row of a measure, also of ``control_NAME``, ``pass^3`` and ``rate(CHECK)``; None for no measure.

    The value of a check in an episode depends on the arm, and is not in the row.
    """
    if name.startswith(RATE):
        count = count_in(name)
        row = Figure(name, RATES, _PASSED, unit="share", better="higher")
        return row if count is None else structs.replace(count, name=name, estimator=_PLANNED, unit="share")
    name = name.removeprefix(_CONTROL)
    if is_pass(name):
        return Figure(name, PASSES[name[4]], _REPEATS, _succeeded, "share", "higher", needs_oracle=True)
    return FIGURES.get(name) or AGAINST_CONTROL.get(name)


def count_in(name: str) -> Figure | None:
    """The count of episodes of which ``rate(COUNT)`` is the share; None for any other name."""
    figure = FIGURES.get(name.removeprefix(RATE)[:-1]) if name.startswith(RATE) else None
    return figure if figure is not None and isinstance(figure.estimator, by.Count) else None


def is_pass(name: str) -> bool:
    """Whether the measure is a pass^k or pass@k."""
    return name != CONSISTENCY and tries_needed(name) > 0


def unit_of(name: str) -> Unit:
    """The unit of a measure."""
    figure = figure_named(name)
    return figure.unit if figure else ""


def is_estimated(name: str) -> bool:
    """Whether a statement about the measure is a claim, decided by an interval."""
    figure = figure_named(name)
    return figure is not None and figure.estimator.is_estimated


def best_case(name: str, keys: Sequence[str], population: Population) -> Measure:
    """The measure of episodes with these keys of which each is as good as it can be."""
    figure = figure_named(name)
    estimate = figure.estimator.at_best(figure, keys, population) if figure else None
    return Measure(exactly(len(keys) if name in ("success", "all") else 0), estimate=estimate)


def known_names(*, with_control: bool) -> tuple[str, ...]:
    """The names that an expression may use, with or without those that need a control."""
    if not with_control:
        return tuple(FIGURES)
    return (*FIGURES, *AGAINST_CONTROL, *(f"{_CONTROL}{name}" for name in FIGURES))


# measures of arms

_TERMS = Terms()


def measures_of(
    arm: ArmFacts,
    terms: Terms = _TERMS,
    passes: Iterable[str] = (),
    rates: Mapping[str, Callable[[EpisodeFacts], list[Truth]]] = MappingProxyType({}),
) -> dict[str, Measure]:
    """All measures of an arm, by name; of pass^k, pass@k and rates of counts these.

    ``rates``: by ``rate(CHECK)`` whether an episode passes the check, empty if there is nothing to judge.
    """
    stated = [row for name in (*passes, *rates) if (row := figure_named(name))]
    stated = [structs.replace(row, value=rates.get(row.name, row.value)) for row in stated]
    rows = [*FIGURES.values(), *stated]
    return {row.name: _in_terms(row, row.estimator.measure(row, arm, terms), terms) for row in rows}


def _in_terms(row: Figure, measure: Measure, terms: Terms) -> Measure:
    return replace(measure, unit=row.unit, error=terms.error)


def against_control(
    measured: Mapping[str, Measure], control: Mapping[str, Measure], terms: Terms = _TERMS
) -> dict[str, Measure]:
    """The measures of an arm, those of its control as ``control_NAME``, and the paired differences."""
    measures = {**measured, **{f"{_CONTROL}{name}": measure for name, measure in control.items()}}
    return measures | {
        name: _in_terms(row, row.estimator.against(row, measured, control, terms), terms)
        for name, row in AGAINST_CONTROL.items()
    }


def outcomes_in(episodes: Iterable[EpisodeFacts]) -> Outcomes:
    """Whether each episode succeeded; None without an outcome."""
    return {episode.episode: _succeeded(episode) for episode in episodes}


def success_text(outcomes: Mapping[str, str], terms: Terms) -> str:
    """The success rate of these episodes, as the result of an arm has it."""
    rate = Rate({key: is_success(each) for key, each in outcomes.items()}, terms.population)
    return replace(by.measure_of_rate(rate), error=terms.error).text
