"""The answer of a search in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wirefault.experiments.search.explain import Cause
from wirefault.experiments.search.limit import Limit, Tally
from wirefault.experiments.search.minimise import Smallest
from wirefault.experiments.search.run_search import SearchResult
from wirefault.history.logs import strip_control
from wirefault.stats.rates import percent


def search_lines(result: SearchResult) -> Iterator[str]:
    """Yield the answer, what it rests on, and how to continue."""
    yield from map(strip_control, _answer_lines(result))
    if not result.is_whole:
        yield f"to resume it: wirefault search resume {result.saved.experiment_id}"
    yield f"search: {result.saved.folder}"


def _answer_lines(result: SearchResult) -> Iterator[str]:
    if result.no_steady_state:
        yield f"not searched: the agent fails without faults: {result.no_steady_state}"
    elif result.answer is None:
        yield "no answer yet: it ended early"
    elif isinstance(result.answer, Limit):
        yield from _limit_lines(result.answer, str(result.saved.plan.search["terms"]["of"]))
    elif isinstance(result.answer, Cause):
        yield from _cause_lines(result.answer, result.saved.plan.search["terms"])
    else:
        yield from _smallest_lines(result.answer, result.saved.plan.search["terms"])


def _limit_lines(limit: Limit, of: str) -> Iterator[str]:
    for dose, tally in limit.tallies.items():
        yield f"  {of} {dose:g}: {_tally(tally)}"
    rate, mass = percent(limit.rate), percent(limit.confidence)
    if limit.state == "not monotone":
        assert limit.rise is not None
        low, high = _doses(limit.rise.low), _doses(limit.rise.high)
        yield (
            f"no limit: success rises with the dose, {_tally(limit.rise.before)} at {of} {low} and"
            f" {_tally(limit.rise.after)} at {high} (Fisher, p = {limit.rise.p:.2g}); the model, and so an"
            " interval, does not apply"
        )
    elif limit.state == "above":
        yield f"success stays above {rate} up to {of} {limit.last_dose:g}, with probability {limit.above:.3f}"
    elif limit.state == "below":
        yield f"success is below {rate} from {of} {limit.first_dose:g} on, with probability {limit.below:.3f}"
    else:
        interval = f"[{limit.low:.3g}, {limit.high:.3g}]"
        yield (
            f"success falls to {rate} at {of} {limit.median:.3g}, {mass} credible {interval}, after"
            f" {limit.trials} trials"
        )
        if limit.state == "open":
            yield (
                f"the interval reaches past the doses, {limit.first_dose:g} to {limit.last_dose:g}: widen"
                " --doses, or raise --cap"
            )


def _doses(doses: Sequence[float]) -> str:
    return f"{doses[0]:g}" if len(doses) == 1 else f"{doses[0]:g} to {doses[-1]:g}"


def _tally(tally: Tally) -> str:
    return f"{tally.successes} of {tally.trials} succeeded"


def _smallest_lines(smallest: Smallest, terms: dict[str, float]) -> Iterator[str]:
    faults = ", ".join(smallest.faults)
    decided = f"{len(smallest.decided)} sets decided, any of them wrongly with probability {terms['error']:g}"
    if smallest.state == "passes":
        yield f"nothing to reduce: with all faults at most {percent(terms['passes_at'])} fail: {faults}"
    elif smallest.state == "fails without":
        yield "nothing to reduce: the agent fails as often without any of the faults"
    elif smallest.state == "minimal":
        yield f"smallest failing set: {faults}"
        if len(smallest.faults) > 1:
            yield f"without any one of them at most {percent(terms['passes_at'])} fail"
    else:
        yield f"fails with: {faults}; a smaller set may fail, too: not every set could be decided"
    yield f"{decided} or less"


def _cause_lines(cause: Cause, terms: dict[str, float]) -> Iterator[str]:
    outcome, faults = terms["outcome"], ", ".join(cause.faults)
    if cause.state == "one":
        yield f"{outcome} was caused by {faults}: without it, and only it, the outcome does not come"
    elif cause.state == "together":
        yield f"{outcome} was caused by several together: {faults}; without any one of them it does not come"
    elif cause.state == "either":
        yield f"{outcome}: each of {faults} is enough alone, so that leaving one out changes nothing"
    elif cause.state == "none":
        yield f"{outcome} comes without any fault, too"
    else:
        yield f"cannot be told: {cause.why}"
    yield f"{len(cause.decided)} sets, any decided wrongly with probability {terms['error']:g} or less"
