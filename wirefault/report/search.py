"""The answer of a search, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wirefault.audit.result import worst_so_far
from wirefault.experiments.index import early_word
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.search.chain import Chain, Risk
from wirefault.experiments.search.explain import Cause
from wirefault.experiments.search.limit import Limit
from wirefault.experiments.search.minimise import Smallest
from wirefault.experiments.search.pairs import Pairs
from wirefault.experiments.search.run_search import SearchResult
from wirefault.history.logs import strip_control
from wirefault.report.next_command import with_folder
from wirefault.stats.rates import percent


class Value(NamedTuple):
    """A figure of an answer in words, and its place in ``--json``."""

    text: str
    path: tuple[str | int, ...]


Parts = Sequence[str | Value]
"""A line of an answer."""


def search_lines(result: SearchResult) -> Iterator[str]:
    """Yield the answer, what it rests on, and how to continue."""
    if isinstance(result.answer, Limit):
        of = result.saved.plan.search["terms"]["of"]
        for dose, tally in result.answer.tallies.items():
            yield strip_control(f"  {of} {dose:g}: {tally.successes} of {tally.trials} succeeded")
    if isinstance(result.answer, Pairs):
        for row in result.answer.rows:
            counts = f"{row.failed} of {row.judged} failed"
            yield strip_control(f"  {row.name}: {', '.join(row.faults)}: {counts}")
    if isinstance(result.answer, Chain):
        yield from map(strip_control, _step_lines(result.answer))
    for parts in answer_parts(result):
        yield strip_control("".join(each if isinstance(each, str) else each.text for each in parts))
    if not result.is_whole:
        saved = result.saved
        if early := early_word(saved.logs, saved.experiment_id):
            yield f"{early}; worst finding so far: {worst_so_far(recording_of(saved)) or 'none'}"
        yield f"to resume it: {with_folder(saved.resume_command, saved.logs)}"
    yield f"search: {result.saved.folder}"


def answer_parts(result: SearchResult) -> Iterator[Parts]:
    """Yield the lines of the answer."""
    terms = result.saved.plan.search["terms"]
    if result.no_steady_state:
        yield "not searched: the agent fails without faults: ", Value(result.no_steady_state, ("because",))
    elif result.answer is None:
        yield ("no answer yet",)
    elif isinstance(result.answer, Limit):
        yield from _limit_parts(result.answer, str(terms["of"]))
    elif isinstance(result.answer, Chain):
        yield from _chain_parts(result.answer)
    elif isinstance(result.answer, Cause):
        yield from _cause_parts(result.answer, terms)
    elif isinstance(result.answer, Pairs):
        yield from _pairs_parts(result.answer)
    else:
        yield from _smallest_parts(result.answer, terms)


def _of_answer(text: object, *path: str | int) -> Value:
    return Value(str(text), ("answer", *path))


def _limit_parts(limit: Limit, of: str) -> Iterator[Parts]:
    rate = _of_answer(percent(limit.rate), "rate")
    first, last = (Value(f"{dose:g}", ("terms", "doses")) for dose in (limit.first_dose, limit.last_dose))
    if limit.state == "not monotone":
        assert limit.rise is not None
        rise = limit.rise
        yield (
            "no limit: success rises with the dose, ",
            _of_answer(f"{rise.before.successes} of {rise.before.trials}", "rises", "before"),
            f" succeeded at {of} ",
            _of_answer(_doses(rise.low), "rises", "from"),
            " and ",
            _of_answer(f"{rise.after.successes} of {rise.after.trials}", "rises", "after"),
            " at ",
            _of_answer(_doses(rise.high), "rises", "to"),
            " (Fisher, p = ",
            _of_answer(f"{rise.p:.2g}", "rises", "p"),
            "); the model, and so an interval, does not apply",
        )
    elif limit.state == "above":
        above = _of_answer(f"{limit.above:.3f}", "above")
        yield "success stays above ", rate, f" up to {of} ", last, ", with probability ", above
    elif limit.state == "below":
        below = _of_answer(f"{limit.below:.3f}", "below")
        yield "success is below ", rate, f" from {of} ", first, " on, with probability ", below
    else:
        yield (
            "success falls to ",
            rate,
            f" at {of} ",
            _of_answer(f"{limit.median:.3g}", "median"),
            ", ",
            _of_answer(percent(limit.confidence), "confidence"),
            " credible [",
            _of_answer(f"{limit.low:.3g}", "low"),
            ", ",
            _of_answer(f"{limit.high:.3g}", "high"),
            "], after ",
            _of_answer(f"{limit.trials} trials", "trials"),
        )
        if limit.state == "open":
            more = ": widen --doses, or raise --cap"
            yield "the interval reaches past the doses, ", first, " to ", last, more
    if limit.rise is None:
        yield ("only the doses with trials were tested; between them success is assumed to fall",)


def _doses(doses: Sequence[float]) -> str:
    return f"{doses[0]:g}" if len(doses) == 1 else f"{doses[0]:g} to {doses[-1]:g}"


def _smallest_parts(smallest: Smallest, terms: Mapping[str, Any]) -> Iterator[Parts]:
    faults = _of_answer(", ".join(smallest.faults), "faults")
    passes = Value(percent(terms["passes_at"]), ("terms", "passes_at"))
    if smallest.state == "passes":
        yield "nothing to reduce: with all faults at most ", passes, " fail: ", faults
    elif smallest.state == "fails without":
        yield ("nothing to reduce: the agent fails as often without any of the faults",)
    elif smallest.state == "minimal":
        yield "smallest failing set: ", faults
        if len(smallest.faults) > 1:
            yield "without any one of them at most ", passes, " fail"
    else:
        yield "fails with: ", faults, "; a smaller set may fail, too: not every set could be decided"
    yield (
        _of_answer(f"{len(smallest.decided)} sets", "decided"),
        " decided, any of them wrongly with probability ",
        Value(f"{terms['error']:g}", ("terms", "error")),
        " or less",
    )


def _cause_parts(cause: Cause, terms: Mapping[str, Any]) -> Iterator[Parts]:
    outcome, faults = str(terms["outcome"]), _of_answer(", ".join(cause.faults), "faults")
    if cause.state == "one":
        yield f"{outcome} was caused by ", faults, ": without it, and only it, the outcome does not come"
    elif cause.state == "together":
        end = "; without any one of them it does not come"
        yield f"{outcome} was caused by several together: ", faults, end
    elif cause.state == "either":
        end = " is enough alone, so that leaving one out changes nothing"
        yield f"{outcome}: each of ", faults, end
    elif cause.state == "none":
        yield (f"{outcome} comes without any fault, too",)
    else:
        yield "cannot be told: ", _of_answer(cause.why, "why")
    yield (
        _of_answer(f"{len(cause.decided)} sets", "decided"),
        ", any decided wrongly with probability ",
        Value(f"{terms['error']:g}", ("terms", "error")),
        " or less",
    )


def _pairs_parts(pairs: Pairs) -> Iterator[Parts]:
    yield (
        _of_answer(pairs.delivered, "delivered"),
        " of ",
        _of_answer(len(pairs.pairs), "planned"),
        " pairs of faults were delivered in one episode (",
        _of_answer("no data" if pairs.share is None else percent(pairs.share), "share"),
        "), by ",
        _of_answer(f"{len(pairs.rows)} rows", "rows"),
    )
    failing = [place for place, pair in enumerate(pairs.pairs) if pair.judged and pair.failed == pair.judged]
    for place in failing[:_MAX_PAIRS]:
        pair = pairs.pairs[place]
        yield (
            f"{pair.first} with {pair.second}: failed in ",
            _of_answer(f"{pair.failed} of {pair.judged}", "pairs", place, "failed"),
            " episodes",
        )
    if len(failing) > _MAX_PAIRS:
        yield _of_answer(f"{len(failing) - _MAX_PAIRS} more", "pairs"), " pairs failed in all their episodes"
    if not failing:
        yield ("no pair failed in all its episodes",)
    absent = [f"{pair.first} with {pair.second}" for pair in pairs.pairs if not pair.delivered]
    if absent and pairs.state != "incomplete":
        more = f" and {len(absent) - _MAX_PAIRS} more" if len(absent) > _MAX_PAIRS else ""
        yield "never delivered together: ", _of_answer("; ".join(absent[:_MAX_PAIRS]) + more, "pairs")


_MAX_PAIRS = 10


def _step_lines(chain: Chain) -> Iterator[str]:
    for step in chain.steps:
        yield f"  {step.name}: {step.text}"
        yield f"    {step.reason}: {step.because}; risk {risk_text(step.risk)}; {step.result}"


def _chain_parts(chain: Chain) -> Iterator[Parts]:
    for place, weakness in enumerate(chain.weaknesses):
        yield (
            f"{weakness.text}: in ",
            _of_answer(f"{weakness.bad} of {weakness.delivered}", "weaknesses", place, "bad"),
            " episodes, first in ",
            _of_answer(weakness.steps[0], "weaknesses", place, "steps", 0),
        )
    if not chain.weaknesses:
        yield ("no weakness showed",)
    ended = f" episodes; {chain.why or 'not at its end'}"
    yield _of_answer(chain.episodes, "episodes"), ended


def risk_text(risk: Risk) -> str:
    return f"{100 * risk.value:.0f} %"
