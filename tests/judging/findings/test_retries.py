"""Retries that are hasty, useless or multiplied, and repeated calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judging.findings.traced import lost, model_request, observed, request, rule_findings
from tests.judging.oracle.histories import armed, called, exchange, fault_met, timeout, tried
from tests.judging.test_evidence import intercepted
from tests.support import replace
from wirefault.history.events import ConnectionEnded, Event, Exchange
from wirefault.judging.findings.finding import Rule
from wirefault.judging.findings.retries import (
    ASKED_AGAIN,
    HASTY_RETRY,
    LAYERED_RETRIES,
    RETRY_STORM,
    USELESS_RETRY,
)
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.toxiproxy.planned import PlannedToxic

BUSY = request(status=429, retry_after=2.0)


@pytest.mark.parametrize(
    ("retry_after", "gap", "text"),
    [
        (2.0, 0.5, "after 490 ms, before a Retry-After of 2 s ended (429)"),
        (0.2, 0.182, "after 172 ms, before a Retry-After of 200 ms ended (429)"),
        (90.0, 12.01, "after 12 s, before a Retry-After of 90 s ended (429)"),
        (600.0, 12.01, "after 12 s, before a Retry-After of 10 minutes ended (429)"),
        (3.47123e8, 0.5, "after 490 ms, before a Retry-After in 11 years ended (429)"),
    ],
)
def test_retry_before_retry_after(retry_after, gap, text):
    busy = request(status=429, retry_after=retry_after)
    assert observed(HASTY_RETRY, busy, request(gap)) == [f"POST /orders was sent again {text}"]


def test_clock_is_named_where_the_caller_has_another() -> None:
    busy = request(status=429, retry_after=2.0, fingerprint="f1")
    again = request(0.5, fingerprint="f1", try_=2)
    callers = [tried("shop", start=100.0, ms=12, status=429), tried("shop", start=100.5, try_=2)]
    [text] = observed(HASTY_RETRY, busy, again, *callers)
    assert text.endswith("after 490 ms, before a Retry-After of 2 s ended (429, by the gateway's clock)")


SLICER = PlannedToxic("shop", "slicer", "downstream", {})


def ingress(opened: float, ended: float = 0.1, **more: Any) -> ConnectionEnded:
    """A connection to the shop that the ingress saw, in seconds after the run's start."""
    seen: dict[str, Any] = {"link": "shop", "opened": 100 + opened, "t": 100 + ended, "tls": False}
    return intercepted(**seen | {"received": 9, "first_byte_ms": 1.0, "ended_by": "client"} | more)


@pytest.mark.parametrize(
    ("rule", "failed"),
    [
        pytest.param(HASTY_RETRY, BUSY, id="hasty"),
        pytest.param(USELESS_RETRY, request(status=403), id="useless"),
        pytest.param(WRITE_REPEATED, lost(), id="write"),
    ],
)
@pytest.mark.parametrize(
    ("at", "opened_ms", "others", "is_retry"),
    [
        pytest.param(0.02, 15.0, [], False, id="connected before the failure"),
        pytest.param(0.02, 5.0, [], True, id="connected after it"),
        pytest.param(0.02, None, [], True, id="connection carried another request"),
        pytest.param(0.03, 1.0, [ingress(0.005)], False, id="ingress saw it before the failure"),
        pytest.param(0.03, 1.0, [ingress(0.005), ingress(0.02)], True, id="came by another connection"),
        pytest.param(0.03, 1.0, [ingress(0.005, ended=0.015), ingress(0.02)], True, id="first has ended"),
        pytest.param(0.03, 1.0, [ingress(0.005), ingress(0.02, link="crm")], False, id="other link"),
        pytest.param(1.5, 1495.0, [], True, id="connected long before its need"),
        pytest.param(0.02, 15.0, [armed(SLICER)], True, id="toxic delays what the caller sees"),
    ],
)
def test_request_on_connection_from_before_the_failure_repeats_nothing(
    rule: Rule, failed: Exchange, at: float, opened_ms: float | None, others: list[Event], is_retry: bool
) -> None:
    again = request(at, status=failed.status, opened_ms=opened_ms)
    assert len(observed(rule, failed, again, *others)) == is_retry


def test_retry_counts_after_the_request_that_failed() -> None:
    """Of two equal requests at the same time, one is refused; the client sends that one again."""
    other = request(0.002, status=201, opened_ms=1.0)
    [text] = observed(HASTY_RETRY, BUSY, other, request(0.5, opened_ms=1.0))
    assert "after 490 ms" in text


def test_lost_write_is_sent_again_after_an_equal_one_succeeded() -> None:
    """The second is another order: its connection was opened before the first was lost."""
    other, again = request(0.02, status=201, opened_ms=15.0), request(0.5, status=201, opened_ms=1.0)
    [text] = observed(WRITE_REPEATED, lost(), other, again)
    assert "after its reply was lost" in text


def test_client_that_gives_up_may_connect_before_the_gateway_notices() -> None:
    left = lost(client_left=True, left_ms=1000.0, ms=2000.0)
    assert observed(WRITE_REPEATED, left, request(1.01, status=201, opened_ms=30.0))


ASKED_MORE = '{"model": "m", "messages": [{"role": "user", "content": "429. Try again."}]}'


@pytest.mark.parametrize(
    ("status", "gap", "body", "count"),
    [
        pytest.param(429, 0.5, ASKED_MORE, 1, id="another prompt"),
        pytest.param(503, 0.5, ASKED_MORE, 1, id="unavailable"),
        pytest.param(429, 2.5, ASKED_MORE, 0, id="waited"),
        pytest.param(400, 0.5, ASKED_MORE, 0, id="refused for good"),
        pytest.param(429, 0.5, '{"model": "other", "messages": []}', 0, id="another model"),
    ],
)
def test_refused_model_is_asked_again_with_any_prompt(status: int, gap: float, body: str, count: int) -> None:
    first = model_request(body='{"model": "m", "messages": []}', status=status, retry_after=2.0)
    assert len(observed(HASTY_RETRY, first, model_request(gap, body))) == count


def down(*starts: float, **more: Any) -> list[Event]:
    return [request(at, **{"status": 503} | more) for at in starts]


def test_tries_without_pause_are_a_storm() -> None:
    texts = observed(RETRY_STORM, *down(0, 0.02, 0.05, 0.07, 0.09))
    assert texts == ["POST /orders was sent 5 times in a row after failures, with pauses of at most 20 ms"]


def test_storm_that_a_pause_splits_is_one_finding() -> None:
    later = [2 + 0.02 * n for n in range(6)]
    [text] = observed(RETRY_STORM, *down(0, 0.02, 0.04, 0.06, 0.08, *later))
    assert text.startswith("POST /orders was sent 6 times in a row")


@pytest.mark.parametrize(
    "tries",
    [
        pytest.param(down(0, 0.02, 0.04, 0.06), id="four"),
        pytest.param(down(0, 0.2, 0.4, 0.6, 0.8, 1.0), id="pauses"),
        pytest.param(down(0, 0.02, 0.04, 1, 1.02, 1.04), id="a pause in the middle"),
        pytest.param(down(0, 1.01, 2.02, 3.03, 4.04, seconds=1.0), id="each waited for a second"),
        pytest.param(down(0, 0.02, 0.04, 0.06, 0.08, status=404), id="refused for good"),
        pytest.param(down(0, 0.02, 0.04, 0.06, 0.08, status=200), id="polls"),
    ],
)
def test_few_or_slow_tries_are_no_storm(tries: list[Event]) -> None:
    assert observed(RETRY_STORM, *tries) == []


QUOTA = '{"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}'


def test_retry_after_exhausted_quota():
    refused = [model_request(at, status=429, reply_body=QUOTA, forwarded=True) for at in (0, 0.6, 1.2)]
    assert observed(USELESS_RETRY, *refused) == [
        "POST /v1/chat/completions was sent again twice, unchanged, after a 429; none succeeded"
    ]
    struck = [model_request(at, status=429, fault=fault_met("quota", 429)) for at in (0, 0.6)]
    assert len(observed(USELESS_RETRY, *struck)) == 1


def test_subject_that_forwards_headers():
    refused = [
        model_request(at, status=429, reply_body=QUOTA, forwarded=True, identity="baggage", call=call)
        for call, at in enumerate((0, 0.6), start=1)
    ]
    assert len(observed(USELESS_RETRY, *refused)) == 1


MCP_CALL = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_note"}
LOST_SESSION = request(0, status=404, fault=fault_met("unknown_session", 404), **MCP_CALL)
NEW_SESSION = {"target": "/mcp", "dialect": "mcp", "message": "initialize", "fingerprint": "i"}


def lost_session(at: float, fingerprint: str, session: str = "s1", ms: float = 5.0):
    lost = fault_met("unknown_session", 404)
    return request(at, ms=ms, status=404, fault=lost, session=session, fingerprint=fingerprint, **MCP_CALL)


def test_other_calls_in_lost_session():
    refused = [lost_session(at, fingerprint) for at, fingerprint in ((0, "a"), (1, "b"), (2, "c"))]
    assert observed(USELESS_RETRY, *refused) == [
        "add_note got a 404 for its MCP session, and 2 other calls were sent in it"
    ]


def test_several_lost_sessions():
    assert not observed(USELESS_RETRY, lost_session(0, "a", "s1"), lost_session(1, "b", "s2"))
    assert not observed(USELESS_RETRY, lost_session(0, "a", ms=500), lost_session(0.1, "b"))


def test_client_keeps_lost_session():
    again = request(0.5, status=404, fault=fault_met("unknown_session", 404), **MCP_CALL)
    assert len(observed(USELESS_RETRY, LOST_SESSION, again)) == 1


def test_client_starts_new_session():
    passed = request(0.5, **MCP_CALL)
    assert observed(USELESS_RETRY, LOST_SESSION, request(0.2, **NEW_SESSION), passed) == []


@pytest.mark.parametrize("message", ["initialize", "notifications/initialized"])
def test_session_initialization_is_not_repeated_call(message):
    begin = NEW_SESSION | {"message": message}
    events = [one for at in range(4) for one in (request(at, **begin), model_request(at + 0.5))]
    assert observed(ASKED_AGAIN, *events) == []


def test_rate_limit_may_be_retried():
    limited = [model_request(at, status=429, reply_body='{"error": "rate_limit"}') for at in (0, 0.6)]
    assert observed(USELESS_RETRY, *limited) == []


def test_hasty_model_request():
    events = [model_request(status=503, retry_after=1.0), model_request(0.2)]
    assert len(observed(HASTY_RETRY, *events)) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([BUSY, request(2.5)], id="waited"),
        pytest.param([BUSY, request(1.85)], id="waited, within a tenth"),
        pytest.param([BUSY, request(0.5, fingerprint="f2")], id="another request"),
        pytest.param([BUSY, request(0.5, credential="b")], id="another credential"),
        pytest.param([request(status=429), request(0.5)], id="no Retry-After"),
        pytest.param([request(status=429, retry_after=0.0), request(0.5)], id="none asked for"),
        pytest.param([request(status=429, retry_after=2.0, seconds=1), request(0.5)], id="under way already"),
        pytest.param([request(status=429, retry_after=2.0, complete=(True, False)), request(0.5)], id="lost"),
        pytest.param([BUSY, request(0.5, attempt=2)], id="another attempt"),
    ],
)
def test_hasty_retry_near_misses(events):
    assert observed(HASTY_RETRY, *events) == []


MADE = {"fault": fault_met("auth_error", status=401, id="no-key"), "status": 401}
LONG = {"status": 400, "reply_body": '{"error": {"code": "context_length_exceeded"}}'}


def useless_retry(*events):
    return observed(USELESS_RETRY, *events)


def test_refused_request_sent_again():
    assert useless_retry(*(request(at, status=422) for at in (0, 1, 2))) == [
        "POST /orders was sent again twice, unchanged, after a 422; none succeeded"
    ]


def test_refusal_by_lab():
    assert "because the lab had injected the error" in useless_retry(request(**MADE), request(1))[0]


def test_model_request_too_long():
    assert useless_retry(model_request(**LONG), model_request(1, **LONG)) == [
        "POST /v1/chat/completions was sent again once, unchanged, after a 400; none succeeded"
    ]


@pytest.mark.parametrize("status", [408, 409, 421, 423, 424, 425, 429, 500, 503])
def test_retryable_statuses(status):
    assert useless_retry(request(status=status), request(1, status=status)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([request(status=422), request(1, status=422, fingerprint="f2")], id="another request"),
        pytest.param([request(status=422), request(1, status=422, attempt=2)], id="another attempt"),
        pytest.param([request(status=422), request(1)], id="passed by itself"),
        pytest.param([request(status=404, method="GET"), request(1, status=404, method="GET")], id="polling"),
        pytest.param(
            [request(status=401, credential="a"), request(1, status=401, credential="b")], id="another key"
        ),
        pytest.param(
            [request(status=422), request(1, fingerprint="f2", status=201), request(2, status=422)],
            id="state changed in between",
        ),
        pytest.param([lost(status=422), request(1, status=422)], id="refusal not seen"),
        pytest.param([armed(timeout("shop")), request(status=422), request(1, status=422)], id="refusal cut"),
        pytest.param([request(status=422, seconds=2), request(1, status=422)], id="under way already"),
        pytest.param([model_request(status=400), model_request(1, status=400)], id="the model's words"),
        pytest.param(
            [model_request(**LONG), model_request(1, '{"messages": [1]}', **LONG)], id="shorter conversation"
        ),
    ],
)
def test_useless_retry_near_misses(events):
    assert useless_retry(*events) == []


def recorded(*tries_of_calls, last=None):
    """Failed tries of the lab's agent, this many for each model call; the last ends with ``last``."""
    events, start = [], 103.0
    for call, count in enumerate(tries_of_calls, start=1):
        for number in range(1, count + 1):
            end = call == len(tries_of_calls) and number == count
            error = last if end else "http_500"
            status = 500 if error else 200
            known = {"call": call, "try_": number, "start": start}
            events += [
                tried("shop", error=error, status=status, **known),
                exchange("shop", status=500, **known),
            ]
            start += 0.1
    return events


def resent(*sdk_retries, status=500):
    return [model_request(place, status=status, sdk_retry=retry) for place, retry in enumerate(sdk_retries)]


def test_layers_by_subjects_count():
    assert observed(LAYERED_RETRIES, *recorded(3, 3, last="http_500")) == [
        "GET / was sent 6 times and failed each time: 2 by the model x 3 by the client"
    ]


def test_uneven_layers():
    assert observed(LAYERED_RETRIES, *recorded(3, 2)) == [
        "GET / was sent 5 times and failed until the last: up to 2 by the model x up to 3 by the client"
    ]


def test_sdk_layer():
    assert observed(LAYERED_RETRIES, *resent(0, 1, 2, 0, 1, 2)) == [
        "POST /v1/chat/completions was sent 6 times and failed each time: 2 by a repeated step"
        " x 3 by the client's SDK"
    ]


def test_model_layer():
    bad = {"status": 500, "method": "GET"}
    events = [request(0, **bad), request(1, **bad), model_request(2), request(3, **bad), request(4, **bad)]
    assert "2 by the model x 2 by the client" in observed(LAYERED_RETRIES, *events)[0]


def step(at, *statuses):
    """A read, then the same write until it works, with no model in between."""
    price = request(at, "/price", "GET", fingerprint="p")
    return [price, *(request(at + place, status=status) for place, status in enumerate(statuses, 1))]


def test_whole_step_is_repeated():
    assert observed(LAYERED_RETRIES, *step(0, 500, 500), *step(5, 500, 500)) == [
        "POST /orders was sent 4 times and failed each time: 2 by a repeated step x 2 by the client"
    ]


def test_conversation_is_repeated():
    bad = {"status": 500}
    events = [model_request(0), request(1, **bad), request(2, **bad)]
    again = [model_request(3), request(4, **bad), request(5, **bad)]
    assert "2 by a repeated step x 2 by the client" in observed(LAYERED_RETRIES, *events, *again)[0]


def test_four_layers():
    def tries(at, sdk):
        return [request(at + place / 10, status=500, sdk_retry=retry) for place, retry in enumerate(sdk)]

    def steps(at):
        prices = [request(at + place, "/price", "GET", fingerprint="p") for place in (0, 2)]
        both = [tries(at + place, [0, 1, 0, 1]) for place in (1, 3)]
        return sorted([*prices, *both[0], *both[1]], key=lambda event: event.start)

    events = [model_request(0, "[1]"), *steps(1), model_request(8, "[2]"), *steps(9)]
    [text] = observed(LAYERED_RETRIES, *events)
    assert text == (
        "POST /orders was sent 16 times and failed each time: "
        "2 by the model x 2 by a repeated step x 2 by the client x 2 by the client's SDK"
    )


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(recorded(3), id="the code alone"),
        pytest.param([*step(0, 500), *step(5, 500), *step(9, 500)], id="the step alone"),
        pytest.param([*step(0, 500, 500, 500)], id="one step alone"),
        pytest.param([*step(0, 500, 201), *step(5, 500, 201)], id="each step passed in the end"),
        pytest.param(recorded(1, 1, 1), id="the model alone"),
        pytest.param(recorded(3, 1), id="passed at the second asking"),
        pytest.param(resent(0, 1, 2), id="the SDK alone"),
        pytest.param(resent(0, 1, 0, 1, status=200), id="answered"),
        pytest.param([request(place, status=500) for place in range(4)], id="layers unknown"),
    ],
)
def test_layered_retries_near_misses(events):
    assert observed(LAYERED_RETRIES, *events) == []


def calls(*results, **more):
    """Calls of the lab's agent; None stands for a failed one."""
    return [
        called(result or "", ok=result is not None, call=call, reply=call, **more)
        for call, result in enumerate(results, start=1)
    ]


def wire(*bodies, model=True, **more):
    """The same GET with these answers, a model's request before each."""
    events = []
    for place, body in enumerate(bodies):
        events += [model_request(place, f"[{place}]")] if model else []
        status = 200 if body else 500
        events.append(request(place + 0.5, method="GET", status=status, reply_body=body, call=place, **more))
    return events


def test_calls_with_same_answer():
    [finding] = rule_findings(ASKED_AGAIN, *calls("8.4", "8.4", "8.4"))
    assert finding.text == "get was called again twice, with the same answer each time"
    assert finding.headline == "The lab's agent called get again and again"  # its evidence has no request


def test_calls_that_always_fail():
    assert observed(ASKED_AGAIN, *calls(None, None, None, None)) == [
        "get was called again 3 times, and failed each time"
    ]


def test_calls_of_opaque_subject():
    assert observed(ASKED_AGAIN, *wire("a", "a", "a")) == [
        "GET /orders was called again twice, with the same answer each time"
    ]


@pytest.mark.parametrize("form", ["{}", "event: message\nid: {id}\ndata: {{}}\n\n"])
@pytest.mark.parametrize(("texts", "findings"), [(("3", "3", "3"), 1), (("3", "4", "4"), 0)])
def test_message_ids_are_not_part_of_answer(form, texts, findings):
    def reply(id, text):
        message = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": [{"text": text}]}})
        return form.replace("{id}", str(id)).replace("{{}}", message).replace("{}", message)

    call = {"dialect": "mcp", "message": "tools/call", "tool": "count", "fingerprint": "f"}
    events = [
        one
        for at, text in enumerate(texts)
        for one in (request(at, **call, reply_body=reply(at, text)), model_request(at + 0.5))
    ]
    assert len(observed(ASKED_AGAIN, *events)) == findings


def test_write_may_change_answer():
    write = [
        tried("weather", fingerprint="w", write=True, start=104.0),
        exchange("weather", fingerprint="w", start=104.0, method="POST"),
    ]
    again = [replace(call, t=103.0 + place) for place, call in enumerate(calls("a", "a", "a"))]
    assert len(observed(ASKED_AGAIN, *again)) == 1
    assert observed(ASKED_AGAIN, *again, *write) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(calls("8.4", "8.4"), id="once more"),
        pytest.param(calls("8.4", "8.5", "8.5"), id="another answer"),
        pytest.param(calls(None, None, "8.4"), id="answered in the end"),
        pytest.param(calls(None, None, None), id="failed three times"),
        pytest.param(wire("a", "a", "a", model=False), id="the tool polls"),
        pytest.param(wire("pending", "pending", "done"), id="polled to its end"),
        pytest.param(wire(None, None, None), id="retries"),
    ],
)
def test_repeated_call_near_misses(events):
    assert observed(ASKED_AGAIN, *events) == []
