"""Views of hand-written episodes, as assertions look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.judging.oracle.histories import ended, episode, exchange, run_started
from tests.support import replace
from wirefault.experiments.assertions.on_arm import check_episode
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.episode_view import EpisodeView, episode_views
from wirefault.history.events import AttemptEnded, EpisodeStarted, Exchange
from wirefault.history.reader import with_ids
from wirefault.judging.checker import CheckResult
from wirefault.judging.judge import judge_identified

OF_MODEL = {"link": "model", "dialect": "openai_chat", "model": "m", "tokens_in": 10, "tokens_out": 5}


def view(
    *events: Any,
    recorded: bool = True,
    turns: Sequence[str] = (),
    links: Sequence[dict[str, Any]] = (),
    expect: dict[str, Any] | None = None,
) -> EpisodeView:
    """The episode of these events; ``recorded``: the subject keeps a record of its calls."""
    run = replace(run_started(), links=list(links), wiring_arguments=["wirefault.yaml"] if links else [])
    events_started = [
        replace(event, recorded=recorded, turns=list(turns)) if isinstance(event, EpisodeStarted) else event
        for event in episode(*events, expect={} if expect is None else expect)
    ]
    identified = list(with_ids([run, *events_started]))
    [episode_view] = episode_views(judge_identified(identified))
    return episode_view


def result(entry: AssertionEntry, of: EpisodeView) -> CheckResult:
    """The assertion's result for this view."""
    return check_episode(parse_assertion(entry), of)


def model_request(at: float = 103.0, **more: Any) -> Exchange:
    """A request to the model, answered."""
    made: Exchange = exchange(**{"start": at, **OF_MODEL, **more})
    return made


def conversation(*turn_ends: float, answers: Sequence[str], **more: Any) -> AttemptEnded:
    """The end of an attempt from 103 to 108 whose turns were answered then."""
    end: AttemptEnded = ended(ended_by="text", response=answers[-1] if answers else "", **more)
    return replace(end, answers=list(answers), turn_ends=list(turn_ends))
