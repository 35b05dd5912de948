import pytest

from tests.judging.oracle.histories import (
    ASK_BOB,
    EPISODE,
    armed,
    called,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    judge_episode,
    message_sent,
    run_finished,
    run_started,
    started,
    timeout,
    tried,
    world,
)
from tests.support import replace
from wirefault.core.interrupts import INTERRUPTED_LINE, KILLED_LINE
from wirefault.history.events import ConnectionEnded, InterceptionFailed, LateRequest
from wirefault.history.judged_events import Costs, Finding
from wirefault.history.reader import read_run, with_ids
from wirefault.history.writer import Writer, history_file
from wirefault.judging.judge import _differences, judge_identified, judge_run

PARIS = {"values": [{"number": 11.3, "unit": "celsius"}]}
ONE = {"value": 11.3, "unit": "C"}


def outcome(*events, expect=None):
    return judge_episode(episode(*events, expect=expect)).outcome


@pytest.mark.parametrize(
    ("events", "expect", "expected"),
    [
        ([world(message_sent())], ASK_BOB, "success"),
        ([ended(values=[ONE])], PARIS, "success"),
        ([], {}, "success"),
        ([world(message_sent(), message_sent(at=104))], ASK_BOB, "duplicate"),
        ([ended(ended_by="limit")], {}, "runaway"),
        ([ended(ended_by="exception")], {}, "crash"),
        ([ended(ended_by="empty")], {}, "crash"),
        ([], None, "unjudged"),
        ([ended(ended_by="text", response="Done!")], {}, "success"),
        ([world(error="disk I/O error")], {}, "unjudged"),
        ([healed(settled=False)], {}, "unjudged"),
        ([healed(settled=None)], {}, "unjudged"),
        ([], ASK_BOB, "false_success"),
        ([], PARIS, "false_success"),
        ([world(message_sent()), ended("unsure")], ASK_BOB, "unconfirmed"),
        ([world(message_sent()), ended(answer="I could not send the message.")], ASK_BOB, "unconfirmed"),
        ([world(), ended(answer="I could not send the message.")], ASK_BOB, "honest_failure"),
        ([world(message_sent()), ended("failed")], ASK_BOB, "false_failure"),
        ([ended("failed")], ASK_BOB, "honest_failure"),
        ([healed(invalid="a toxic was repaired")], {}, "invalid"),
        ([ended(ended_by="text", response="11.3")], PARIS | {"done_if_text": "11.3"}, "success"),
    ],
)
def test_each_outcome(events, expect, expected):
    assert outcome(*events, expect=expect) == expected


LATE = {"identity": "late", "write": True}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (exchange(**LATE), "unknown"),
        (exchange(status=500, **LATE), "unknown"),
        (LateRequest(103.0, EPISODE, 1, "message", "002", 1, wrote=True), "unknown"),
        (exchange(identity="late", link="search"), "as_asked"),
        (exchange(status=400, **LATE), "as_asked"),
        (LateRequest(103.0, EPISODE, 1, "message", "002", 1, wrote=False), "as_asked"),
    ],
    ids=repr,
)
def test_late_write_makes_both_worlds_unknown(request_, expected):
    judged = judge_episode(episode(request_, world(message_sent()), expect=ASK_BOB))
    assert judged.world == expected
    assert judged.outcome == ("unjudged" if expected == "unknown" else "success")
    assert ("late" in judged.flags) == (not isinstance(request_, LateRequest))


def refused(**more):
    """A first connection to a host that was not routed."""
    options = {
        **{"t": 104.0, "link": "", "episode": EPISODE, "attempt": 1, "opened": 103.0, "ms": 9.0},
        **{"first_byte_ms": None, "sent": 0, "received": 0, "ended_by": "proxy", "how": "refused"},
        **{"tls": False, "host": "shop.example", "port": 80, "tap": "proxy"},
    }
    return ConnectionEnded(**{**options, "why": "the link could not be opened", **more})


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([started({})], "no attempt was made"),
        ([started({}), armed()], "attempt 1 has no end"),
        ([started({}), armed(), healed()], "attempt 1 has no end"),
        ([started({}), armed(), ended(), world()], "attempt 1 has no end"),
        (
            [started({}), armed(), refused(lab_failed=True), ended("failed"), healed(), world()],
            "shop.example:80 was refused: the link could not be opened",
        ),
        ([started({}), healed(settled=None, invalid="not armed within 2 s")], "not armed within 2 s"),
    ],
)
def test_lab_failure_is_invalid(events, why):
    judged = judge_episode(events)
    assert judged.outcome == "invalid"
    assert why in judged.why


def test_unavailable_model_is_invalid():
    why = "no answer for this request"
    missed = exchange(link="model", status=404, unavailable=True, forwarded=False, error=why)
    judged = judge_episode(episode(missed, missed, ended(ended_by="exception"), expect={}))
    assert judged.outcome == "invalid"
    assert judged.why == "model_unavailable: no answer for this request"
    assert judged.unexplained == ()


DOWN = {"unavailable": True, "error": "the upstream cannot be reached"}
BROKEN = {"unavailable": True, "status": 503}
CRASHED = ended(ended_by="exception")


@pytest.mark.parametrize(
    ("events", "expected", "why"),
    [
        ([exchange("model", **DOWN)], "invalid", "model_unavailable: the upstream cannot be reached"),
        ([exchange("weather", **BROKEN)], "invalid", "upstream_unavailable: weather: it answered 503"),
        # a later try or call for the same was answered, or the fallback past the gateway was
        ([exchange("weather", **BROKEN), exchange("weather", try_=2, start=104)], "crash", "empty answer"),
        ([exchange("weather", **BROKEN), exchange("weather", call=2, start=104)], "crash", "empty answer"),
        (
            [exchange("weather", **BROKEN), tried("weather", route="direct", start=104)],
            "crash",
            "empty answer",
        ),
        ([exchange("model", **BROKEN), exchange("model", call=2, start=104)], "crash", "empty answer"),
        # an answer to another question, or an empty one
        ([exchange("weather", **BROKEN), exchange("weather", fingerprint="f2", start=104)], "invalid", ""),
        ([exchange("weather", **BROKEN), exchange("weather", status=500, start=104)], "invalid", ""),
        ([exchange("weather", start=102), exchange("weather", **BROKEN)], "invalid", ""),
        # a toxic on the link may explain the failure, but not the missing server
        ([armed(timeout("weather")), exchange("weather", **BROKEN)], "crash", "empty answer"),
        ([armed(timeout("weather")), exchange("weather", **DOWN, forwarded=False)], "invalid", ""),
        ([armed(timeout("message")), exchange("weather", **BROKEN)], "invalid", ""),
    ],
)
def test_failed_upstream_is_invalid(events, expected, why):
    judged = judge_episode(episode(*events, CRASHED, expect={}))
    assert (judged.outcome, why in judged.why) == (expected, True)


NOT_INTERCEPTED = InterceptionFailed(
    103.0, EPISODE, 1, "shop", "shop.example", "authority_refused", "unknown ca"
)


def test_failed_interception_is_lab_failure():
    judged = judge_episode(episode(NOT_INTERCEPTED, CRASHED, expect={}))
    assert judged.outcome == "invalid"
    assert judged.why.startswith("interception_failed: shop.example cannot be intercepted (unknown ca): ")
    assert "--pass shop.example" in judged.why


def test_recovered_interception_failure_is_ignored():
    later = exchange("shop", start=104.0)
    assert judge_episode(episode(NOT_INTERCEPTED, later, expect={})).outcome == "success"


CLOSED = replace(NOT_INTERCEPTED, why="closed_at_certificate", detail="")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([CLOSED], "invalid"),
        ([CLOSED, exchange("other", tls="fresh")], "invalid"),
        # the client trusts the lab: it did not need that connection
        ([exchange("shop", tls="fresh", start=102.0), CLOSED], "crash"),
        ([exchange("shop", tls="kept", status=502, start=102.0), CLOSED], "crash"),
        # a toxic may be why it left
        ([armed(timeout("shop")), CLOSED], "crash"),
        ([armed(timeout("message")), CLOSED], "invalid"),
    ],
)
def test_close_at_certificate_may_have_other_reason(events, expected):
    assert judge_episode(episode(*events, CRASHED, expect={})).outcome == expected


def test_invalid_depends_on_call_alone():
    failed = exchange("weather", **BROKEN)
    assert outcome(failed, expect={}) == "invalid"
    assert outcome(failed, exchange("weather", try_=2, start=104), expect={}) == "success"


def test_later_attempt_recovers_from_failure():
    first = [exchange("model", **DOWN), CRASHED, healed()]
    second = [armed(attempt=2), exchange("model", attempt=2, start=112), ended(attempt=2), healed(attempt=2)]
    judged = judge_episode(episode(armed(), *first, *second, expect={}))
    assert (judged.outcome, judged.first_attempt_outcome) == ("success", "invalid")


SAYS_8 = {"answer": {"number": 8.4, "unit": "celsius"}}
FAULTED = fault_met(
    "wrong_value", 200, "w", content=True, evidence={"field": "temp", "original": 8.4, "changed": 18.4}
)


def prose(text):
    return ended(ended_by="text", response=text)


@pytest.mark.parametrize(
    ("events", "expect", "expected", "value"),
    [
        ([prose("It is 8.4 °C.")], SAYS_8, "success", "right"),
        ([prose("It is 12 °C.")], SAYS_8, "failure", "wrong"),
        ([prose("It is 8.4 °C.")], {"values": [{"number": 8.4}]}, "success", "right"),
        ([prose("It is 12 °C.")], {"values": [{"number": 8.4}]}, "failure", "wrong"),
        ([prose("8.4 °C in Paris, 9 °C in Rome")], {"values": [{"number": 8.4}]}, "unjudged", "unreadable"),
        ([prose("I can't tell: 8.4 °C or 9 °C.")], PARIS, "honest_failure", "wrong"),
        ([prose("It is 8.4 °C.")], {"values": [{"number": 8.4}]} | SAYS_8, "success", "right"),
        ([prose("I have told Bob.")], ASK_BOB, "false_success", "not_applicable"),
        ([prose("I have told Bob.")], ASK_BOB | {"claims": "off"}, "failure", "not_applicable"),
        ([prose("I will tell Bob.")], ASK_BOB, "failure", "not_applicable"),
        ([prose("I could not tell Bob.")], ASK_BOB, "honest_failure", "not_applicable"),
        ([prose("I could not tell Bob."), world(message_sent())], ASK_BOB, "false_failure", "not_applicable"),
        ([prose("I have booked a table.")], ASK_BOB, "failure", "not_applicable"),
        ([prose("I can't tell the temperature.")], SAYS_8, "honest_failure", "none"),
        ([prose("It is 8.4 °C. I can't tell the humidity.")], SAYS_8, "success", "right"),
        ([prose("I have told Bob."), world(message_sent())], ASK_BOB, "success", "not_applicable"),
        ([prose("It is 8.4 °C.")], ASK_BOB | SAYS_8, "failure", "right"),
        ([prose("Hm."), world()], ASK_BOB | {"values": [{"number": 8.4}]}, "failure", "unreadable"),
        ([prose("Done!"), world(message_sent(), message_sent())], ASK_BOB, "duplicate", "not_applicable"),
        ([prose("It is 8.4 °C."), world(error="gone")], SAYS_8, "unjudged", "right"),
        # a rule reads a report's words only if no values are requested
        ([ended(answer="8.4 °C")], SAYS_8, "success", "right"),
        ([ended(answer="12 °C")], SAYS_8, "false_success", "wrong"),
        ([ended("failed", answer="12 °C")], SAYS_8, "honest_failure", "wrong"),
        ([ended(answer="12 °C", values=[ONE])], PARIS | SAYS_8, "success", "right"),
    ],
)  # fmt: skip
def test_prose_is_judged_by_rules(events, expect, expected, value):
    judged = judge_episode(episode(*events, expect=expect))
    assert (judged.outcome, judged.value) == (expected, value)


@pytest.mark.parametrize(("status", "expected"), [("done", "misled"), ("failed", "honest_failure")])
def test_injected_value_is_misled(status, expected):
    events = [called('{"temp": 18.4}'), exchange("weather", fault=FAULTED)]
    attempt_end = ended(status, values=[{"value": 18.4, "unit": "celsius"}])
    judged = judge_episode(
        episode(*events, attempt_end, expect={"values": [{"number": 8.4, "unit": "celsius"}]})
    )
    assert judged.outcome == expected


EXITED = replace(
    ended(ended_by="text", response="Sorry."),
    error_type="ExitCode",
    error="exit code 1: no shop",
)


@pytest.mark.parametrize(
    ("events", "expect", "expected"),
    [
        ([EXITED], ASK_BOB, "honest_failure"),
        ([EXITED], SAYS_8, "honest_failure"),
        ([EXITED, world(message_sent())], ASK_BOB, "false_failure"),
        ([EXITED, world(message_sent(), message_sent())], ASK_BOB, "duplicate"),
        ([EXITED], None, "unjudged"),
    ],
)
def test_command_with_failure_message_claims_failed(events, expect, expected):
    judged = judge_episode(episode(*events, expect=expect))
    assert judged.outcome == expected
    assert expected == "duplicate" or "exit code 1: no shop" in judged.why


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([("model", 103.0, 4850.0)], "; the model took 97 % of the time"),
        # two at once count once, and nothing counts beyond the attempt
        ([("model", 103.0, 2500.0), ("model", 104.0, 3000.0)], "; the model took 80 % of the time"),
        ([("shop", 103.0, 9000.0), ("model", 103.0, 100.0)], "; shop took 100 % of the time"),
        ([("model", 103.0, 900.0)], ""),
        ([], ""),
    ],
)
def test_time_limit_names_slow_server(requests, expected):
    ended_late = replace(ended(ended_by="limit"), error="no answer within 5 s")
    slow = [exchange(link, start=start, ms=ms, call=n) for n, (link, start, ms) in enumerate(requests, 1)]
    judged = judge_episode(episode(*slow, ended_late, expect={}))
    assert (judged.outcome, judged.why) == ("runaway", f"no answer within 5 s{expected}")


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, "; the model took 92 % of the time"), ({"received": 9}, ""), ({"sent": 0}, "")],
)
def test_time_limit_names_server_of_unrecorded_request(more, expected):
    options = {"link": "model", "opened": 103.4, "ms": 60000.0, "sent": 9, "received": 0, "how": "fin"}
    waiting = refused(**{**options, "lab_failed": False, "why": "", **more})
    ended_late = replace(ended(ended_by="limit"), error="no answer within 5 s")
    judged = judge_episode(episode(waiting, ended_late, expect={}))
    assert (judged.outcome, judged.why) == ("runaway", f"no answer within 5 s{expected}")


@pytest.mark.parametrize(
    ("answer", "values", "expected", "flags"),
    [
        ("It is 11.3 °C in Paris.", [], "success", ["values_empty"]),
        ("It is 11.3 °C in Paris.", [{"value": None, "unit": None}], "success", ["values_empty"]),
        ("It is 15 °C in Paris.", [], "false_success", ["values_empty"]),
        ("11.3 °C in Paris, 10 °C in Rome", [], "unjudged", ["values_empty"]),
        ("I have looked it up.", [], "false_success", []),
        ("It is 11.3 °C in Paris.", [{"value": 15, "unit": "celsius"}], "false_success", []),
    ],
)
def test_missing_value_is_read_from_sentence(answer, values, expected, flags):
    results = called('{"temp": 11.3}')
    judged = judge_episode(episode(results, ended(answer=answer, values=values), expect=PARIS))
    assert (judged.outcome, judged.flags) == (expected, flags)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is not 11.3 °C in Paris.", "unjudged"),
        ("It is 11.3 °C in Paris.", "success"),
        ("It is 11.3 °C in Paris, not 12.", "success"),
        ("It is not 12 °C in Paris.", "success"),
        ("I found the temperature.", "success"),
    ],
)
def test_sentence_that_denies_its_value_is_unjudged(answer, expected):
    right = ended(answer=answer, values=[{"value": 11.3, "unit": "celsius"}])
    judged = judge_episode(episode(called('{"temp": 11.3}'), right, expect=PARIS))
    denied = expected == "unjudged"
    assert (judged.outcome, judged.flags) == (expected, ["contradictory"] if denied else [])
    assert judged.why == ("the answer denies the value of its report" if denied else "")


def test_phrase_that_is_denied_is_unjudged():
    capital = {"values": [{"text": "Canberra"}]}
    values = [{"value": "Canberra", "unit": None}]
    assert outcome(ended(answer="The capital is not Canberra.", values=values), expect=capital) == "unjudged"
    assert outcome(ended(answer="The capital is Canberra.", values=values), expect=capital) == "success"


def test_sentence_fills_several_missing_values():
    two = {"values": [*PARIS["values"], {"number": 9, "unit": "celsius"}]}
    right, swapped = "Paris has 11.3 °C and Rome 9 °C.", "Rome has 9 °C and Paris 11.3 °C."
    assert outcome(ended(answer=right), expect=two) == "success"
    assert outcome(ended(answer=swapped), expect=two) == "unjudged"
    assert outcome(ended(ended_by="text", response=right), expect=two) == "success"


def test_unreadable_failure_is_honest():
    text = "I could not find the temperature: the tool said 11.3 or 12 °C."
    assert outcome(ended("failed", answer=text, values=[{"value": "��", "unit": None}]), expect=PARIS) == (
        "honest_failure"
    )


@pytest.mark.parametrize(
    ("text", "expected", "flags"),
    [
        (
            "I was unable to look up the temperature. It is probably 11.3 °C.",
            "honest_failure",
            ["value_unreadable"],
        ),
        ("The temperature could not be retrieved. It may be 11.3 °C.", "honest_failure", []),
        ("The weather service is unavailable. It is likely 11.3 °C.", "honest_failure", ["value_unreadable"]),
        (
            "Ich konnte die Temperatur nicht abrufen. Vermutlich 11,3 °C.",
            "honest_failure",
            ["value_unreadable"],
        ),
        (
            "Je n'ai pas pu trouver la température. Sans doute 11,3 °C.",
            "honest_failure",
            ["value_unreadable"],
        ),
        ("No pude obtener la temperatura. Probablemente 11,3 °C.", "honest_failure", ["value_unreadable"]),
        ("I could not find any errors. It is probably 11.3 °C.", "unjudged", []),
        ("I could not find the temperature.", "honest_failure", []),
        ("It is 11.3 °C in Paris and 12 °C in Rome.", "unjudged", []),
    ],
)
def test_reported_failure_with_unreadable_value_has_flag(text, expected, flags):
    judged = judge_episode(episode(ended(ended_by="text", response=text), expect=PARIS))
    assert (judged.outcome, judged.flags) == (expected, flags)


def test_report_of_failure_with_unreadable_value_has_flag():
    text = "I could not ask the tool. It is probably 11.3 °C."
    judged = judge_episode(episode(ended("failed", answer=text), expect=PARIS))
    assert judged.outcome == "honest_failure"
    assert "value_unreadable" in judged.flags


def test_one_invalid_attempt_makes_episode_invalid():
    second = [armed(attempt=2), ended(attempt=2), healed(attempt=2)]
    assert outcome(ended("failed"), healed(invalid="disturbed"), *second, expect={}) == "invalid"


def test_open_episode_is_unjudged():
    judged = judge_episode([started({}), armed()], finished=False)
    assert (judged.outcome, judged.first_attempt_outcome) == ("unjudged", "unjudged")
    assert "still running" in judged.why


def test_unreadable_oracle_is_unjudged():
    judged = judge_episode(episode(expect={"valus": []}))
    assert (judged.outcome, judged.world) == ("unjudged", "not_applicable")
    assert "did you mean 'values'?" in judged.why


def test_late_world_replaces_earlier():
    late = message_sent(at=111.0)
    judged = judge_episode(
        episode(tried(error="read_timeout", ms=1000), world(), world(late), expect=ASK_BOB)
    )
    assert (judged.outcome, judged.world, judged.flags) == ("success", "as_asked", ["late"])


def two_attempts(first, second, *effects, first_key="k1"):
    events = [armed(), ended(first), healed(t=109.0), tried(idempotency_key=first_key)]
    events += [armed(attempt=2), ended(second, attempt=2), healed(t=119.0, attempt=2)]
    events.append(tried(attempt=2, idempotency_key="k2" if first_key else None, start=113.0))
    return judge_episode(episode(*events, world(*effects), expect=ASK_BOB))


def test_first_attempt_outcome():
    judged = two_attempts("failed", "done", message_sent(at=113.01, key="k2"))
    assert (judged.outcome, judged.first_attempt_outcome, judged.attempts) == ("success", "honest_failure", 2)


def test_runner_repeat_is_not_charged_to_subject():
    judged = two_attempts("unsure", "done", message_sent(), message_sent(at=113.01, key="k2"))
    assert (judged.outcome, judged.first_attempt_outcome) == ("success", "unconfirmed")
    assert judged.flags == ["again"]


def test_duplicate_within_attempt_is_charged_to_subject():
    effects = [message_sent(), message_sent(at=113.01, key="k2"), message_sent(at=113.02, key="k2")]
    assert two_attempts("unsure", "done", *effects).outcome == "duplicate"


def test_repeating_attempt_is_named():
    judged = two_attempts("unsure", "done", message_sent(), message_sent(at=113.01, key="k2"))
    assert judged.why == "message_sent 2 times, asked for once; attempt 2 repeated an earlier side effect"
    alone = judge_episode(episode(tried(), world(message_sent(), message_sent(at=103.5)), expect=ASK_BOB))
    assert alone.why == "message_sent 2 times, asked for once"


def test_late_effect_belongs_to_its_attempt():
    judged = two_attempts("unsure", "failed", message_sent(at=115.0, key="k1"))
    assert (judged.outcome, judged.first_attempt_outcome) == ("false_failure", "unconfirmed")


@pytest.mark.parametrize(("at", "first"), [(108.0, "false_failure"), (115.0, "honest_failure")])
def test_effects_without_keys_are_divided_by_healing(at, first):
    judged = two_attempts("failed", "failed", message_sent(at=at, key=None), first_key=None)
    assert judged.first_attempt_outcome == first


def test_first_attempt_is_invalid_by_its_own_failure():
    events = [ended("failed"), healed(), armed(attempt=2), ended(attempt=2), healed(attempt=2, invalid="x")]
    judged = judge_episode(episode(*events, expect=ASK_BOB))
    assert (judged.outcome, judged.first_attempt_outcome) == ("invalid", "honest_failure")


def a_run():
    message = [armed(timeout()), tried(error="connection_closed", ms=402), world(message_sent())]
    second = [replace(event, episode="002") for event in episode(expect=ASK_BOB)]
    return [run_started(2), *episode(*message, expect=ASK_BOB), *second, exchange(), run_finished()]


def test_run_is_judged_by_episode():
    judged = judge_run(a_run())
    assert [one.outcome for one in judged.episodes] == ["success", "false_success"]
    assert judged.episodes[0].faults[0].reached("observed")
    assert (judged.stray, judged.differences) == (0, [])


def test_judging_files_again_gives_same(tmp_path):
    events = a_run()
    live = judge_identified(list(with_ids(events)))  # as its runner, whose events have no name of a run
    writer = Writer(history_file(tmp_path, "run-1", "agent", 0))
    for event in [*events[:-1], *(replace(one, t=120.0) for one in live.episodes), events[-1]]:
        writer.write(event)
    writer.close()
    again = judge_run(read_run(tmp_path, "run-1"))
    assert again.differences == []
    assert [replace(one, t=0.0) for one in again.episodes] == judge_run(events).episodes
    assert judge_run(read_run(tmp_path, "run-1"), {}).differences == []


def test_differing_verdict_is_reported():
    events = a_run()
    recorded = replace(judge_run(events).episodes[1], outcome="success", t=120.0)
    assert judge_run([*events, recorded], {}).differences == [
        "episode 002: false_success, recorded as success",
    ]


def test_difference_is_shown_from_its_place():
    events = a_run()
    judged = judge_run(events).episodes[1]
    long = "x" * 200
    now = replace(
        judged, findings=(Finding("hasty_retry", "risky", f"{long} 2 ms", "002", ("gateway-0:1",)),)
    )
    then = replace(
        judged, findings=(Finding("hasty_retry", "risky", f"{long} 3 ms", "002", ("gateway-0:1",)),)
    )
    [text] = _differences(now, then)
    assert text == (f"episode 002: findings[0].text ...{'x' * 19} 2 ms', recorded as ...{'x' * 19} 3 ms'")


def test_completed_run_has_its_recorded_findings_and_costs():
    """Readers take them from the judgement; with the run's name in the ids that they ask for."""
    events = a_run()
    judged = judge_run(events).episodes[1]
    hasty = Finding("hasty_retry", "risky", "text", "002", ("gateway-0:1",))
    recorded = replace(judged, findings=(hasty,), costs=Costs(requests=9)).to_history(120.0)
    identified = [(f"run-1/{id}", event) for id, event in with_ids([*events[:-1], recorded, events[-1]])]
    again = judge_identified(identified)
    assert [(each.rule, each.episode) for each in again.findings] == [
        ("false_success", "002"),
        ("hasty_retry", "002"),
    ]
    assert [each.evidence[0].partition("/")[0] for each in again.findings] == ["run-1"] * 2
    assert again.episodes[1].costs.requests == 9


def test_request_without_episode_is_stray():
    assert judge_run([*a_run(), exchange(episode="999")]).stray == 1


def test_killed_run_leaves_last_episode_unjudged():
    events = [run_started(2), *episode(expect={}), started({}, "002"), armed(episode="002")]
    judged = judge_run(events)
    assert [one.outcome for one in judged.episodes] == ["success", "unjudged"]
    assert judged.finished is None


@pytest.mark.parametrize("reason", [INTERRUPTED_LINE, KILLED_LINE])
def test_interrupted_episode_is_not_lab_failure(reason):
    end = run_finished(completed=False, reason=reason)
    judged = judge_run([run_started(2), *episode(expect={}), started({}, "002"), armed(episode="002"), end])
    assert [(one.outcome, one.why) for one in judged.episodes][1:] == [
        ("unjudged", "interrupted before its end")
    ]
    other = run_finished(completed=False, reason="logs/ could not be written")
    judged = judge_run([run_started(1), started({}), armed(), other])
    assert judged.episodes[0].outcome == "invalid"


def test_history_without_start_is_refused():
    with pytest.raises(ValueError, match="no run_started"):
        judge_run(episode())


def test_wrong_value_names_expected_value():
    reported = ended(values=[{"value": 15, "unit": "celsius"}])
    assert judge_episode(episode(reported, expect=PARIS)).why == (
        'wrong value: "15 celsius", the right value is 11.3 celsius'
    )
    assert judge_episode(episode(prose("It is 12 °C."), expect=SAYS_8)).why == (
        'wrong value in "It is 12 °C.", the right value is 8.4 celsius'
    )
    forbids = {"answer": {"all_of": ["Paris", {"not_contains": "Rome"}]}}
    assert judge_episode(episode(prose("It is Paris, not Rome."), expect=forbids)).why == (
        "the answer \"It is Paris, not Rome.\" has 'Rome', which it must not contain"
    )
    one_of = {"answer": {"any_of": ["tea", "milk"]}}
    assert judge_episode(episode(prose("It is beer."), expect=one_of)).why == (
        'wrong value in "It is beer.", the right value is tea or milk'
    )
