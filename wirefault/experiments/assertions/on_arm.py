"""An assertion over an arm: held, deviated or unknown. Pure.

It held if it passed in the required share of episodes whatever the unknown ones would show, and deviated if
it cannot reach that share. Episodes with nothing to judge do not count; without any other it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wirefault.experiments.assertions.assertion import Assertion, SummableLimit
from wirefault.experiments.assertions.registry import (
    AssertionEntry,
    CallableAssertion,
    parse_assertion,
    statement_of,
)
from wirefault.experiments.episode_view import EpisodeView, NothingToJudge, NotRecorded
from wirefault.experiments.expression import Truth, every
from wirefault.experiments.measured import Measured, OfEpisode, total
from wirefault.judging.checker import Checker, CheckResult
from wirefault.judging.summary import counted

MAX_EVIDENCE = 20
MAX_RESULTS = 20


@dataclass(frozen=True)
class Asserted:
    """The outcome of an assertion in an arm; ``result`` is for the whole arm.

    ``episodes`` are the keys that decided, if it did not hold. ``results`` has at most twenty episodes,
    failed ones first. ``passed``: in how many episodes it passed, if none failed.
    """

    statement: str
    result: CheckResult
    episodes: tuple[str, ...] = ()
    results: Mapping[str, CheckResult] | None = None
    passed: int = 0


CODE_NOT_RUN = (
    "its function was not run, because this user did not sign the plan;"
    " to run it, name the experiment's file again"
)


def assert_on_episode(assertion: Assertion, view: EpisodeView | None, *, runs_code: bool = True) -> OfEpisode:
    """The episode's contribution to ``assert_on_arm``; None without a view.

    Functions of the plan are called only if ``runs_code``; else their result is unknown.
    """
    if view is None or needs_all_views(assertion):
        return None
    if needs_users_code(assertion) and not runs_code:
        return _named(assertion, CheckResult(passed=None, message=CODE_NOT_RUN))
    if isinstance(assertion, SummableLimit) and assertion.over == "arm":
        return _figures_of(assertion, view)
    return check_episode(assertion, view)


def needs_all_views(assertion: Assertion) -> bool:
    """Whether it needs all views of an arm at once."""
    return isinstance(assertion, CallableAssertion) and assertion.over == "arm"


def needs_users_code(assertion: Assertion) -> bool:
    """Whether its results may change although neither the history nor Wirefault did."""
    return isinstance(assertion, CallableAssertion)


def assert_on_arm(
    entry: AssertionEntry,
    asserted: Mapping[str, OfEpisode],
    planned: int,
    views: Sequence[EpisodeView] = (),
    *,
    runs_code: bool = True,
) -> Asserted:
    """The assertion over an arm of ``planned`` episodes.

    Episodes missing from ``asserted`` (by key) are unknown. ``views`` are for an assertion that needs all.
    Functions of the plan are called only if ``runs_code``; else their result is unknown.
    """
    assertion, statement = parse_assertion(entry), statement_of(entry)
    if needs_all_views(assertion) and not runs_code:
        return Asserted(statement, _named(assertion, CheckResult(passed=None, message=CODE_NOT_RUN)))
    if isinstance(assertion, CallableAssertion) and assertion.over == "arm":
        missing = max(planned - len(views), 0)
        return Asserted(statement, _named(assertion, _of_all_at_once(assertion, views, missing)))
    known = {key: outcome for key, outcome in asserted.items() if outcome is not None}
    missing = max(planned - len(known), 0)
    if isinstance(assertion, SummableLimit) and assertion.over == "arm":
        return Asserted(statement, _named(assertion, _of_sum(assertion, known, missing)))
    results = {key: outcome for key, outcome in known.items() if isinstance(outcome, CheckResult)}
    return _together(assertion, statement, results, missing)


def check_episode(assertion: Assertion, view: EpisodeView) -> CheckResult:
    """Check an episode; the result may be unknown."""
    try:
        _refuse_invalid(view)
        if assertion.turn is None:
            result = assertion.check(view)
        elif assertion.turn == "each":
            result = _of_each_turn(assertion, view)
        else:
            result = assertion.check(view.of_turn(assertion.turn))
    except NothingToJudge as nothing:
        result = CheckResult(passed=None, message=str(nothing), applies=False)
    except NotRecorded as gap:
        result = CheckResult(passed=None, message=str(gap))
    return _named(assertion, result)


def _named(checker: Checker[EpisodeView], result: CheckResult) -> CheckResult:
    return replace(result, name=result.name or checker.name, expected=result.expected or checker.expected)


def _refuse_invalid(view: EpisodeView) -> None:
    if view.judgement.outcome == "invalid":
        raise NotRecorded(f"the lab failed in it: {view.judgement.why}")


def _of_each_turn(assertion: Assertion, view: EpisodeView) -> CheckResult:
    single = assertion.model_copy(update={"turn": None})
    of_turns = {number: check_episode(single, view.of_turn(number)) for number in range(1, view.turns + 1)}
    judged = {number: result for number, result in of_turns.items() if result.applies}
    if not judged:
        raise NothingToJudge(of_turns[1].message)
    passed = every(result.passed for result in judged.values())
    decides = {number: result for number, result in judged.items() if result.passed is passed}
    number, first = next(iter(decides.items()))
    return CheckResult(
        passed=passed,
        measured="; ".join(f"turn {place}: {result.measured}" for place, result in decides.items()),
        message=f"turn {number}: {first.message}" if first.message else "",
        evidence=tuple(id for result in decides.values() for id in result.evidence),
    )


def _figures_of(assertion: SummableLimit, view: EpisodeView) -> tuple[Measured, ...] | CheckResult:
    """The episode's part of a sum, or why it is unknown."""
    try:
        _refuse_invalid(view)
        return assertion.figures(view)
    except (NothingToJudge, NotRecorded) as gap:
        return CheckResult(passed=None, message=str(gap))


def _of_sum(
    assertion: SummableLimit, known: Mapping[str, CheckResult | tuple[Measured, ...]], missing: int
) -> CheckResult:
    gaps = [f"{counted(missing, 'episode')} did not complete"] if missing else []
    gaps += [
        f"{key}: {outcome.message}" for key, outcome in known.items() if isinstance(outcome, CheckResult)
    ]
    parts = [figures for figures in known.values() if not isinstance(figures, CheckResult)]
    if not parts:
        return CheckResult(passed=None, message=gaps[0] if gaps else "no episode")
    gap = gaps[0] if gaps else ""
    return assertion.judged([total(figures, gap) for figures in zip(*parts, strict=True)])


def _of_all_at_once(assertion: CallableAssertion, views: Sequence[EpisodeView], missing: int) -> CheckResult:
    valid = [view for view in views if view.judgement.outcome != "invalid"]
    unknown = missing + len(views) - len(valid)
    if unknown:
        message = f"{unknown} episodes show nothing, and the function needs all of them"
        return CheckResult(passed=None, message=message)
    try:
        return assertion.check_arm(valid)
    except (NotRecorded, NothingToJudge) as reason:
        return CheckResult(passed=None, message=str(reason))


def _together(
    assertion: Assertion, statement: str, results: Mapping[str, CheckResult], missing: int
) -> Asserted:
    judged = {key: result for key, result in results.items() if result.applies}
    passed = sum(result.passed is True for result in judged.values())
    failed = sum(result.passed is False for result in judged.values())
    planned, idle = len(judged) + missing, len(results) - len(judged)
    unknown = planned - passed - failed
    truth = _reached(assertion.episodes, passed, unknown, planned)
    decides = {key: result for key, result in judged.items() if result.passed is truth}
    measured = [f"{passed} of {planned} episodes"] if planned else []
    measured += [f"{unknown} unknown"] if unknown else []
    measured += [f"{idle} with nothing to judge"] if idle else []
    evidence = dict.fromkeys(id for result in decides.values() for id in result.evidence)
    result = CheckResult(
        passed=truth,
        measured=", ".join(measured),
        message="" if truth else _why(decides or ({} if planned else results), missing),
        evidence=tuple(evidence)[:MAX_EVIDENCE],
    )
    failed_first = sorted(
        results.items(), key=lambda pair: (pair[1].passed is not False, bool(pair[1].passed))
    )
    episodes = () if truth else tuple(decides)
    passed_all = passed if not failed and not unknown else 0
    return Asserted(
        statement, _named(assertion, result), episodes, dict(failed_first[:MAX_RESULTS]), passed_all
    )


def _reached(share: float, passed: int, unknown: int, judged: int) -> Truth:
    """Whether the required share passed, in whole episodes."""
    if not judged:
        return None
    needed = math.ceil(share * judged - 1e-9)
    return True if passed >= needed else False if passed + unknown < needed else None


def _why(decides: Mapping[str, CheckResult], missing: int) -> str:
    """The result of the first episode that decided."""
    if not decides:
        return f"{counted(missing, 'episode')} did not complete"
    key, result = next(iter(decides.items()))
    parts_shown = "; ".join(part for part in (result.measured, result.message) if part)
    return f"{key}: {parts_shown or 'did not pass'}"
