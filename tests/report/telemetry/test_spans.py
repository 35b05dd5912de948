"""Spans of hand-written histories: parents, times, attributes, and the join with the subject's trace."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    called,
    ended,
    episode,
    exchange,
    fault_met,
    latency,
    model_call,
    run_finished,
    run_started,
    tried,
)
from tests.support import replace
from wirefault.core.identity import TRACEPARENT_HEADER, Identity
from wirefault.history.events import Event, RecoveryTried
from wirefault.judging.judge import judge_run
from wirefault.report.telemetry.spans import Span, run_spans

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FAULTED = fault_met(id="rate", delay_ms=40.0, acted_ms=1.0)


def spans_of(*events: Event, **settings: object) -> list[Span]:
    judged = judge_run([run_started(1, **settings), *episode(*events), run_finished()])
    return list(run_spans(judged, experiment="exp-1", arm="method"))


def named(spans: list[Span], name: str) -> Span:
    [span] = [span for span in spans if span.name == name]
    return span


def test_each_level_is_child_of_the_one_above() -> None:
    spans = spans_of(
        exchange("weather", status=503, fault=FAULTED),
        tried("weather", status=503, error="http_503"),
        exchange("weather", try_=2, start=103.1),
        tried("weather", try_=2, start=103.1),
        called(tries=2),
    )
    names = [
        "run",
        "episode",
        "invoke_agent langchain agent",
        "execute_tool get",
        "GET",
        "fault unavailable",
        "GET",
    ]
    assert [span.name for span in spans] == names
    run, start, attempt, call, first, _, second = spans
    assert start.links == (run.context,) and start.parent is None
    parents = [start, attempt, call, first, call]
    assert [span.parent for span in spans[2:]] == [parent.context for parent in parents]
    assert {span.context.trace for span in spans[1:]} == {start.context.trace}
    assert len({span.context.span for span in spans}) == len(spans)
    assert (first.error, second.error, call.error) == ("http_503", "", "")
    assert second.attributes["http.request.resend_count"] == 1
    assert all(span.start <= span.end for span in spans)


def test_fault_has_proposed_attributes() -> None:
    spans = spans_of(
        exchange("weather", status=503, fault=FAULTED),
        tried("weather", status=503, error="http_503"),
        chaos_level=0.5,
    )
    fault = named(spans, "fault unavailable")
    assert {key: value for key, value in fault.attributes.items() if key.startswith("fault.")} == {
        "fault.kind": "unavailable",
        "fault.id": "rate",
        "fault.stage": "observed",
        "fault.link": "weather",
        "fault.target_status": 503,
        "fault.latency_ms": 40.0,
        "fault.dose": 0.5,
        "fault.seed": 7,
    }
    assert fault.start == pytest.approx(103.001)


def test_toxic_is_child_of_its_attempt() -> None:
    spans = spans_of(armed(latency("weather")), exchange("weather"), tried("weather", ms=320.0))
    fault, attempt = named(spans, "fault latency"), named(spans, "invoke_agent langchain agent")
    assert fault.parent == attempt.context and (fault.start, fault.end) == (attempt.start, attempt.end)
    assert fault.attributes["fault.latency_ms"] == 300.0 and fault.attributes["fault.stage"] == "observed"
    assert "fault.id" not in fault.attributes  # drawn by TOXIC_PROB


def test_attempt_and_try_have_ids_of_the_wire() -> None:
    spans = spans_of(exchange("weather"), tried("weather"), called())
    wire = Identity("run-1", EPISODE, 1, 1, 1).headers("weather", "f1")[TRACEPARENT_HEADER].split("-")
    span = named(spans, "GET")
    assert [f"{span.context.trace:032x}", f"{span.context.span:016x}"] == wire[1:3]
    environ = Identity("run-1", EPISODE, 1).headers("")[TRACEPARENT_HEADER].split("-")
    attempt = named(spans, "invoke_agent langchain agent")
    assert [f"{attempt.context.trace:032x}", f"{attempt.context.span:016x}"] == environ[1:3]


def test_request_with_traceparent_joins_subjects_trace() -> None:
    spans = spans_of(
        exchange("weather", identity="counted", traceparent=THEIRS, fault=FAULTED, status=503),
    )
    request, call, fault = (
        named(spans, "GET"),
        named(spans, "call weather"),
        named(spans, "fault unavailable"),
    )
    assert f"{request.context.trace:032x}" == THEIRS[3:35] and request.kind == "server"
    assert request.parent is not None and f"{request.parent.span:016x}" == THEIRS[36:52]
    assert request.links == (call.context,)
    assert fault.parent == request.context and fault.context.trace == request.context.trace


@pytest.mark.parametrize("header", ["", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01"])
def test_invalid_context_joins_nothing(header: str) -> None:
    spans = spans_of(exchange("weather", identity="counted", traceparent=header))
    assert named(spans, "GET").parent == named(spans, "call weather").context


def test_model_call_follows_genai_conventions() -> None:
    fields = {"dialect": "openai_chat", "method": "POST", "target": "/v1/chat/completions", "fingerprint": ""}
    spans = spans_of(exchange("model", model="m-1", tokens_in=7, tokens_out=3, **fields), model_call())
    call = named(spans, "chat")
    assert call.kind == "client" and {
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }.items() <= (call.attributes.items())
    assert (
        call.attributes["gen_ai.response.model"] == "m-1"
        and call.attributes["gen_ai.provider.name"] == "openai"
    )


def test_mcp_tool_is_executed_tool() -> None:
    spans = spans_of(exchange("files", dialect="mcp", method="POST", message="tools/call", tool="read_file"))
    call = named(spans, "execute_tool read_file")
    assert call.attributes["mcp.method.name"] == "tools/call"


def test_outcome_is_evaluation_of_episode() -> None:
    spans = spans_of(expected := ended(ended_by="exception", status="failed"))
    [label] = named(spans, "episode").events
    assert expected.episode == EPISODE and label.name == "gen_ai.evaluation.result"
    assert (
        label.attributes["gen_ai.evaluation.score.label"]
        == named(spans, "episode").attributes["wirefault.outcome"]
    )


def test_further_attempt_links_to_episode() -> None:
    events = [
        exchange("weather"),
        exchange("weather", attempt=2, start=120.0),
        armed(),
        replace(armed(attempt=2), t=119.0),
    ]
    spans = spans_of(*events)
    roots = [span for span in spans if span.name.startswith("invoke_agent")]
    assert roots[1].parent is None and roots[1].links == (named(spans, "episode").context,)
    assert roots[0].parent == named(spans, "episode").context


def test_recovery_is_event_of_attempt() -> None:
    tried_again = RecoveryTried(104.0, EPISODE, 1, "retry", 1, True, 0.1, "the call", link="weather", call=1)
    [event] = named(spans_of(tried_again), "invoke_agent langchain agent").events
    assert event.attributes == {"wirefault.recovery.strategy": "retry", "wirefault.recovery.success": True}


def test_second_export_writes_same_spans() -> None:
    events = (exchange("weather"), exchange("weather"), tried("weather"))  # two with one key, as a resend has
    assert spans_of(*events) == spans_of(*events)


def test_spans_have_no_contents() -> None:
    marks = ("SECRET-PROMPT", "SECRET-ARG", "SECRET-RESULT", "SECRET-QUERY", "SECRET-ERROR", "SECRET-ANSWER")
    events = [
        exchange(
            "weather", target="/x?key=SECRET-QUERY", request_body="SECRET-ARG", reply_body="SECRET-RESULT",
            error="read failed: SECRET-ERROR",
        ),
        tried("weather", error="bad_reply: SECRET-ERROR"),
        called("SECRET-RESULT", ok=False, arguments={"q": "SECRET-ARG"}, error="failed SECRET-ERROR"),
        ended(response="SECRET-ANSWER", answer="SECRET-ANSWER"),
    ]  # fmt: skip
    judged = judge_run([run_started(1), *(replace(e, prompt="SECRET-PROMPT") if hasattr(e, "prompt") else e
                                          for e in episode(*events))])  # fmt: skip
    text = repr(list(run_spans(judged)))
    assert not [mark for mark in marks if mark in text]
