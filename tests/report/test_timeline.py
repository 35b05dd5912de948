"""An episode as a timeline: content of its lines, and their layout."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    called,
    ended,
    episode,
    exchange,
    fault_met,
    latency,
    message_sent,
    run_started,
    timeout,
    tried,
    world,
)
from tests.support import replace
from wirefault.history.events import (
    Event,
    FaultedReply,
    ShadowMet,
    ShadowToxic,
    SocketMessage,
    SubjectKilled,
)
from wirefault.judging.judge import JudgedEpisode, judge_episode
from wirefault.report.timeline import timeline_lines
from wirefault.report.timeline_text import print_timeline
from wirefault.toxiproxy.planned import PlannedToxic

SENT, LIE = '{"temp": 8.4, "city": "Paris"}', '{"temp": 36.1, "city": "Paris"}'
CHANGED = fault_met("wrong_value", id="lie", shows={"status": 200, "digest": ""}, delay_ms=0.0)


def of(*events: Event, **more: Any) -> JudgedEpisode:
    return judge_episode([run_started(1), *episode(*events, **more)], "001")


def texts(timeline: JudgedEpisode, kind: str) -> list[str]:
    return [line.text for line in timeline_lines(timeline) if line.kind == kind]


def drawn(timeline: JudgedEpisode, *, full: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    print_timeline(console, timeline, full=full)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def struck(upstream: str | None, observed: str | None, **more: Any) -> Event:
    fields = {"fault": CHANGED, "forwarded": upstream is not None, "start": 103.001}
    return exchange("weather", **fields | {"faulted_reply": FaultedReply(upstream, observed)} | more)


def test_call_has_tries_and_result() -> None:
    timeline = of(
        exchange("weather", status=503, fault=fault_met()),
        tried("weather", status=503, error="http_503"),
        exchange("weather", try_=2, start=103.1),
        tried("weather", try_=2, start=103.1),
        called(SENT, arguments={"city": "Paris"}),
    )
    output = [
        (line.kind, line.text, line.seen, line.depth) for line in timeline_lines(timeline) if line.at != 1.0
    ]
    assert output[:5] == [
        ("call", 'get(city="Paris")', "", 0),
        ("try", "weather  GET /", "http_503", 1),
        ("fault", "unavailable, seen by the caller", "", 2),
        ("try", "weather  GET /", "200", 1),
        ("result", SENT, "", 1),
    ]


def test_conversation_has_the_reply_to_each_turn() -> None:
    end = replace(ended(ended_by="text", response="Bye."), answers=["Hello.", "", "Bye."])
    timeline = of(replace(end, turn_ends=[103.0, 104.0, 108.0]))
    assert (texts(timeline, "reply"), texts(timeline, "answer")) == (["Hello.", "none (empty)"], ["Bye."])
    assert [line.at for line in timeline_lines(timeline) if line.kind == "reply"] == [2.0, 3.0]


def test_times_are_counted_from_start_of_episode() -> None:
    assert [line.at for line in timeline_lines(of(tried("weather"), called())) if line.at] == [
        1.0,
        2.0,
        2.0,
        3.0,
        7.0,
    ]


def test_changed_reply_shows_both_sides() -> None:
    timeline = of(struck(SENT, LIE), tried("weather"), called(LIE))
    assert (texts(timeline, "upstream"), texts(timeline, "observed")) == ([SENT], [LIE])


def test_changed_reply_shows_headers_that_guide_or_differ() -> None:
    plain = {"Content-Type": "application/json", "Content-Length": "9"}
    reply = FaultedReply(SENT, LIE, upstream_headers=plain, observed_headers=plain | {"Retry-After": "2"})
    timeline = of(struck(SENT, LIE, faulted_reply=reply, status=429), tried("weather", error="http_429"))
    headers = {
        line.kind: line.headers for line in timeline_lines(timeline) if line.kind in ("upstream", "observed")
    }
    assert headers == {"upstream": (), "observed": ("Retry-After: 2",)}
    assert any("429  Retry-After: 2  " in line for line in drawn(timeline))


@pytest.mark.parametrize(
    ("event", "error", "upstream", "observed"),
    [
        pytest.param(
            struck(None, "{}", status=503), "http_503", "nothing, it was not forwarded", "{}", id="not asked"
        ),
        pytest.param(
            struck(SENT, None, status=None), "read_timeout", SENT, "nothing (read_timeout)", id="lost"
        ),
        pytest.param(
            struck(SENT, SENT, fault=replace(CHANGED, delay_ms=300.0)),
            None,
            SENT,
            "the same, 300 ms later",
            id="late",
        ),
        pytest.param(
            struck(SENT, SENT, fault=replace(CHANGED, delay_ms=9000.0)),
            "read_timeout",
            SENT,
            "no whole reply",
            id="too late",
        ),
    ],
)
def test_missing_side_is_explained(event: Event, error: str | None, upstream: str, observed: str) -> None:
    timeline = of(event, tried("weather", error=error))
    assert (texts(timeline, "upstream"), texts(timeline, "observed")) == ([upstream], [observed])


def test_toxic_shows_both_records() -> None:
    faulted = FaultedReply(SENT, SENT, toxic=True)
    lost = [exchange("message", faulted_reply=faulted), tried("message", error="read_timeout", ms=1000.0)]
    timeline = of(armed(timeout(ms=0), latency("search")), *lost)
    assert texts(timeline, "toxic") == [
        "timeout downstream on message: seen",
        "not met: latency on search",
    ]
    assert texts(timeline, "fault") == ["toxic timeout downstream: seen by the caller"]
    assert texts(timeline, "upstream") == [SENT]
    assert texts(timeline, "observed") == ["nothing (read_timeout) after 1000 ms"]


@pytest.mark.parametrize(
    "toxic", [timeout(), PlannedToxic("message", "limit_data", "downstream", {"bytes": 9})]
)
@pytest.mark.parametrize("faulted", [{}, {"fault": CHANGED, "faulted_reply": FaultedReply(SENT, LIE)}])
def test_reply_possibly_lost_in_toxic_is_not_shown_as_received(
    toxic: PlannedToxic, faulted: dict[str, Any]
) -> None:
    known = toxic.kind == "timeout"
    timeline = of(armed(toxic), exchange(reply_body=SENT, **{"forwarded": True} | faulted))
    assert texts(timeline, "got") == []
    assert texts(timeline, "upstream") == [SENT]
    expected = "no whole reply" if known else "unknown: a toxic may have kept the reply back"
    assert texts(timeline, "observed") == [expected]
    [request] = [line for line in timeline_lines(timeline) if line.kind == "request"]
    assert request.seen == ("lost" if known else "unknown")


def test_reply_on_clean_link_is_shown_as_received() -> None:
    assert texts(of(armed(), exchange(reply_body=SENT)), "got") == [SENT]


def test_fault_of_other_arm_is_shadow() -> None:
    shadow = ShadowToxic("slow", latency("weather"))
    request = exchange("weather", shadows=[ShadowMet("method", "lost", "lose_reply")])
    timeline = of(replace(armed(), shadows=[shadow]), request, tried("weather"))
    assert texts(timeline, "shadow") == [
        "latency upstream on weather, in the arm slow",
        "lost, in the arm method",
    ]
    assert texts(timeline, "fault") == []


def test_effects_answer_and_claim_come_last() -> None:
    timeline = of(
        tried(), called("{}", link="message"), world(message_sent()), ended(response="Sent."), expect=ASK_BOB
    )
    assert texts(timeline, "effect") == ['message_sent {"to": "Bob", "body": "hi"}']
    assert texts(timeline, "answer") + texts(timeline, "claim") == ["Sent.", "done"]
    assert drawn(timeline)[0] == "success  episode 001 of run-1"


@pytest.mark.parametrize(("answer", "claims"), [("Sent.", ["done, by the words of the answer"]), ("Hm.", [])])
def test_claim_in_prose_follows_answer(answer: str, claims: list[str]) -> None:
    assert texts(of(ended(ended_by="text", response=answer), expect=ASK_BOB), "claim") == claims


def test_sides_start_where_they_differ() -> None:
    upstream, observed = f"{'a' * 200} {SENT}", f"{'a' * 200} {LIE}"
    timeline = of(struck(upstream, observed), tried("weather"))
    lines = drawn(timeline)
    assert max(map(len, lines)) <= 100
    [left] = [line for line in lines if "upstream" in line]
    [right] = [line for line in lines if "observed" in line]
    assert left.index("8.4") == right.index("36.1")
    assert any(upstream in line for line in drawn(timeline, full=True))


def test_json_sides_differ_in_values_only() -> None:
    timeline = of(struck(SENT.replace(" ", ""), LIE), tried("weather"))
    left, right = (line for line in drawn(timeline) if "upstream" in line or "observed" in line)
    assert left.index("8.4") == right.index("36.1") and '{"temp":36.1,"city":"Paris"}' in right


def test_server_text_is_stripped() -> None:
    timeline = of(struck("\x1b[2J\nnew line", "{}"), tried("weather"))
    [line] = [line for line in drawn(timeline) if "upstream" in line]
    assert "\x1b" not in line and line.endswith("new line")


def test_missing_episode_is_error() -> None:
    with pytest.raises(ValueError, match="episode 002"):
        judge_episode([run_started(1), *episode()], "002")


def test_message_with_fault_is_listed() -> None:
    lost = SocketMessage(
        103.0, "001", 1, "voice", 1, "server", 3, "text", 20, "response.done", "dropped", "ws_drop"
    )
    passed = replace(lost, number=4, fate="passed", fault="")
    lines = texts(of(lost, passed), "message")
    assert lines == ["voice  server's message 3 response.done (20 bytes): dropped (ws_drop)"]


def test_reply_that_opens_websocket_is_not_compared() -> None:
    event = exchange(
        "weather",
        status=101,
        fault=fault_met("ws_drop", id="w", shows=None),
        faulted_reply=FaultedReply("", ""),
    )
    assert texts(of(event), "observed") == []


def test_kill_has_loss_and_way_back() -> None:
    cut = exchange("weather", fault=fault_met("kill_subject", id="crash"), complete=(True, False))
    kill = SubjectKilled(103.5, "001", 1, 1, "weather", "crash", "before_request", "kill", True, 12.0)
    timeline = of(cut, kill, exchange("weather", start=104.0, call=2))
    assert texts(timeline, "killed") == [
        "SIGKILL at weather, request not forwarded; dead after 12 ms",
        "GET / of weather: not executed",
        "1 call repeated, recovered after 0.50 s",
    ]
    assert [line.label for line in timeline_lines(timeline) if line.kind == "killed"][1:] == [
        "lost",
        "after it",
    ]
