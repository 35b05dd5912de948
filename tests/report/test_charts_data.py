"""The charts' data from a history: times, faults and their tries, causes of failure."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import exchange, fault_met
from tests.report.synthetic import START, SyntheticRun
from tests.support import replace
from wirefault.core.spans import Span
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    EpisodeJudged,
    EpisodeStarted,
    Exchange,
    RunStarted,
    ToolTry,
    ToxicsChanged,
)
from wirefault.history.judged_events import FaultRecord
from wirefault.history.reader import HistoryError, read_run
from wirefault.judging.chart_data import REFUSED
from wirefault.judging.charted import run_data
from wirefault.judging.evidence.gather import gather
from wirefault.judging.judge import ByControl
from wirefault.judging.trace import episode_trace
from wirefault.report.charts.style import duration, spread
from wirefault.report.charts.times import bin_width, histogram, moving_median
from wirefault.toxiproxy.planned import PlannedToxic

BEGIN = RunStarted(100.0, "r", "lab", 0, 7, {"model": "scripted"}, "an agent", 1)
EPISODE = EpisodeStarted(100.0, "001", "prompt", None)


def _try(error=None, status=200, ms=5.0, number=1, route="proxy"):
    return ToolTry(
        "001",
        1,
        "t",
        "search",
        "f",
        1,
        101.0,
        101.0 + ms / 1000,
        ms,
        1000.0,
        status,
        10,
        try_=number,
        error=error,
        route=route,
    )


def _exchange(kind):
    return Exchange(
        101.0,
        "001",
        1,
        "search",
        "GET",
        "/",
        1,
        4.0,
        503,
        1,
        1,
        fingerprint="f",
        forwarded=False,
        faults=[fault_met(kind)],
    )


def _armed(kind="timeout", **attributes):
    return AttemptArmed(100.5, "001", 1, 5.0, [PlannedToxic("search", kind, "upstream", attributes)])


def test_toxic_lasts_from_armed_to_healed(tmp_path):
    SyntheticRun(tmp_path, prompts=24).write()
    data = run_data(read_run(tmp_path, "run-a"))
    toxics = [span for span in data.spans if span.toxic]
    assert toxics and all(0 <= span.start < span.end <= data.length for span in toxics)


def test_unhealed_toxic_lasts_to_end():
    data = run_data([BEGIN, EPISODE, _armed(timeout=400), _try(ms=2000.0)])
    assert [(span.start, span.end) for span in data.spans] == [(0.5, 3.0)]


def test_toxic_span_ends_with_toxic():
    armed = _armed(timeout=400)
    gone = ToxicsChanged(101.5, "001", 1, "ended", [], ended=armed.toxics, begun=101.4)
    data = run_data([BEGIN, EPISODE, armed, gone, _try(ms=2000.0)])
    assert [(span.start, span.end) for span in data.spans] == [(0.5, 1.5)]


def test_toxic_span_starts_with_toxic():
    [planned] = _armed(timeout=400).toxics
    later = replace(planned, during=Span(1.0))
    armed = replace(_armed(), toxics=[later])
    begun = ToxicsChanged(101.6, "001", 1, "started", [], started=[later], begun=101.5)
    data = run_data([BEGIN, EPISODE, armed, begun, _try(ms=2000.0)])
    assert [(span.start, span.end) for span in data.spans] == [(1.5, 3.0)]
    assert run_data([BEGIN, EPISODE, armed, _try(ms=2000.0)]).spans == ()


def test_try_has_fault_it_shows():
    lost = _try("connection_closed", None, ms=401.0)
    assert _only_try(_armed(timeout=400), lost).fault == "timeout"
    assert _only_try(_armed(timeout=400), lost).cause == "timeout"


def test_answered_try_has_fault_without_cause():
    one = _only_try(_armed("latency", latency=300, jitter=0), _try(ms=304.0))
    assert (one.fault, one.cause) == ("latency", None)


def test_http_error_is_caused_by_gateway():
    refused = _try("http_503", 503)
    assert _only_try(_armed(timeout=400), refused).cause is None
    injected = _exchange("unavailable")
    assert _only_try(_armed(timeout=400), refused, injected).cause == "unavailable"


def test_http_error_is_not_caused_by_delay():
    slow = fault_met("delay", id="slow", delay_ms=300.0, shows={"delay_ms": 300.0})
    injected = _exchange("overloaded")
    both = replace(injected, faults=[*injected.faults, slow])
    assert _only_try(_try("http_503", 503, ms=305.0), both).cause == "other_error"
    assert (
        _only_try(_try("read_timeout", None, ms=300.0), replace(injected, faults=[slow])).cause == "delayed"
    )


def test_request_without_record_fails_as_its_client_saw():
    """By the rule of `failed_calls`: an MCP tool's error, and a reply that a toxic kept back."""
    quiet, answered = replace(EPISODE, recorded=False), exchange("search", start=101.0)
    error = {"dialect": "mcp", "message": "tools/call", "tool": "order", "tool_answer": "error"}
    armed = AttemptArmed(
        100.5, "001", 1, 5.0, [PlannedToxic("search", "timeout", "downstream", {"timeout": 0})]
    )
    for events, how in [
        ([answered], (None, None)),
        ([exchange("search", start=101.0, **error)], ("tool_error", REFUSED)),
        ([armed, answered], ("connection_closed", "timeout")),
    ]:
        [one] = run_data([BEGIN, quiet, *events]).tries
        assert (one.error, one.cause) == how


def test_request_without_record_crossed_the_toxic_that_delayed_it():
    """As the summary counts it: delivered as injected. A refusal behind it is still the service's."""
    slow = FaultRecord(0, "", "toxic", "latency", "search", 1, "injected", True, "injection")
    judged = EpisodeJudged(102.0, "001", "success", faults=(slow,))
    quiet = replace(EPISODE, recorded=False)
    for status, cause in ((200, None), (404, REFUSED)):
        data = run_data([BEGIN, quiet, exchange("search", start=101.0, status=status), judged])
        [one] = data.tries
        assert not data.has_record
        assert (one.fault, one.cause, data.prompts[0].crossed_fault) == ("latency", cause, True)


def test_error_behind_a_slow_toxic_failed_although_its_reply_may_be_lost():
    armed = _armed("latency", latency=1500, jitter=0)
    quiet = replace(EPISODE, recorded=False)
    injected = exchange("search", start=101.0, status=503, faults=[fault_met("unavailable")], forwarded=False)
    [one] = run_data([BEGIN, quiet, armed, injected]).tries
    assert (one.error, one.cause) == ("http_503", "unavailable")


def test_service_refusal_is_not_fault():
    assert _only_try(_try("http_404", 404)).cause == REFUSED


def test_fallback_try_has_no_fault():
    one = _only_try(_armed(timeout=400), _try(route="direct"))
    assert one.direct and one.fault is None


def test_unexplained_failures_match_evidence(tmp_path):
    SyntheticRun(tmp_path, prompts=60, settings={"toxics": "latency:1500,reset_peer,slicer"}).write()
    events = read_run(tmp_path, "run-a")
    data = run_data(events)
    groups = {event.episode: [] for event in events if isinstance(event, EpisodeStarted)}
    for event in events:
        if getattr(event, "episode", None) in groups:
            groups[event.episode].append(event)
    expected = sum(len(gather(episode_trace(group)).unexplained) for group in groups.values())
    assert sum(one.error is not None and one.cause is None for one in data.tries) == expected


def test_late_verdict_changes_outcome_not_time():
    def verdict(t, outcome):
        return EpisodeJudged(t, "001", outcome, "as_asked", "done", "right", 1, outcome)

    events = [BEGIN, EPISODE, verdict(102.0, "success"), verdict(109.0, "duplicate")]
    prompt = run_data(events).prompts[0]
    assert (prompt.outcome, prompt.judged) == ("duplicate", 2.0)


def test_claim_without_oracle_is_charted():
    def claim(expect, outcome="unjudged", reported="done"):
        started = replace(EPISODE, expect=expect)
        judged = EpisodeJudged(
            102.0, "001", outcome, "not_applicable", reported, "not_applicable", 1, outcome
        )
        return run_data([BEGIN, started, judged]).prompts[0].claim

    assert claim(None) == "done"
    assert claim(None, "crash", "none") == "none"
    assert claim(None, "invalid") is None
    assert claim({}) is None


def test_experiment_control_decides_outcome():
    judged = EpisodeJudged(102.0, "001", "success", "as_asked", "done", "right", 1, "success")
    events = [BEGIN, EPISODE, judged]
    [prompt] = run_data(events, {EPISODE.episode: ByControl("POST /orders executed twice")}).prompts
    assert prompt.outcome == "duplicate"


def test_subject_names_scripted_model():
    request = exchange(link="model", episode="001")
    assert run_data([BEGIN, EPISODE, request]).subject == "an agent, self-test subject: scripted model"
    assert run_data([BEGIN]).subject == "an agent, no model was called through the lab"


def test_history_without_start_is_refused():
    with pytest.raises(HistoryError, match="no run_started"):
        run_data([EPISODE])


def test_times_are_relative_to_run_start(tmp_path):
    SyntheticRun(tmp_path, prompts=3, start=START + 1e6).write()
    data = run_data(read_run(tmp_path, "run-a"))
    assert all(0 <= one.start <= one.end + 0.01 <= data.length + 0.02 for one in data.tries)


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0.4, "0.4 ms"), (12.4, "12 ms"), (1001, "1 s"), (1250, "1.25 s"), (125_000, "2 min 5 s")],
)
def test_duration_texts(ms, words):
    assert duration(ms) == words


def test_few_values_have_no_p95():
    assert spread([1.0] * 19) == "p50 1.0 ms, max 1.0 ms"
    assert spread([1.0] * 20) == "p50 1.0 ms, p95 1.0 ms"


def test_bins_hold_every_time():
    assert histogram([0.0, 0.1, 9.99, 10.0], 5, 10.0) == [2, 2]
    assert all(8 <= length / bin_width(length) <= 48 for length in (0.5, 3, 16.2, 200, 3600))


def _only_try(*events):
    (one,) = run_data([BEGIN, EPISODE, *events]).tries
    return one


def test_prompt_ends_with_its_last_attempt():
    ends = [AttemptEnded("001", n, 100.0, 100.0 + n, 500.0, "empty", "") for n in (2, 1)]
    [prompt] = run_data([BEGIN, EPISODE, *ends]).prompts
    assert (prompt.ended, prompt.response_ms) == (2.0, 1000.0)


def test_moving_median_of_neighbours():
    points = [(float(t), ms) for t, ms in enumerate([1.0, 9.0, 2.0, 8.0, 3.0])]
    assert moving_median(points, 3) == [(1.0, 2.0), (2.0, 8.0), (3.0, 3.0)]
    assert moving_median(points, 7) == []
