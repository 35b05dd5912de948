import random

import pytest

from tests.judging.oracle.histories import EPISODE, armed, exchange, latency, met, model_call, timeout, tried
from windtunnel.history.events import ToxicsChanged
from windtunnel.judging.evidence.gather import gather
from windtunnel.judging.evidence.record import STAGES
from windtunnel.toxiproxy.planned import PlannedToxic

CLOSED = {"error": "connection_closed", "ms": 402.0}
LOST_REPLY = exchange(complete=(True, True), ms=3.0)


def only_fault(*events):
    (fault,) = gather(events).faults
    return fault


def stages(fault):
    return (*(fault.reached(stage) for stage in STAGES[1:]), fault.delivered)


def test_a_toxic_on_a_link_that_nobody_called_was_armed_and_not_exercised():
    fault = only_fault(armed(timeout("search")), tried("message"))
    assert stages(fault) == (True, True, False, False, False, False)
    assert (fault.stage, fault.why_not, fault.tries) == ("armed", "not_exercised", ())


@pytest.mark.parametrize(
    ("toxic", "seen", "there"),
    [
        (timeout(stream="downstream"), CLOSED, [LOST_REPLY]),
        (timeout(stream="upstream"), CLOSED, []),
        (timeout(stream="upstream"), CLOSED, [exchange(complete=(False, False), status=None)]),
        (latency(ms=300), {"ms": 310.0}, [exchange()]),
        (latency(ms=1500), {"ms": 1001.0, "error": "read_timeout"}, [exchange()]),
        (latency(ms=1500), {"ms": 1001.0, "error": "read_timeout"}, []),
        (PlannedToxic("message", "down", "downstream", {}), {"ms": 1.0, "error": "connection_refused"}, []),
    ],
)
def test_a_toxic_that_was_met_and_shows_its_signature_is_observed(toxic, seen, there):
    evidence = gather([armed(toxic), tried(**seen), *there])
    (fault,) = evidence.faults
    assert stages(fault) == (True,) * 6
    assert (fault.stage, fault.why_not, fault.source, fault.stream) == (
        "observed",
        None,
        "toxic",
        toxic.stream,
    )
    assert evidence.unexplained == ()


@pytest.mark.parametrize(
    ("toxic", "seen", "there"),
    [
        (timeout(stream="downstream"), {"ms": 20.0}, [exchange()]),
        (timeout(stream="downstream"), CLOSED, []),  # no reply was lost
        (timeout(stream="upstream"), CLOSED, [exchange()]),  # the request arrived
        (latency(ms=300), {"ms": 310.0}, [exchange(ms=305.0)]),  # the service was slow, not the link
        (PlannedToxic("message", "slow_close", "downstream", {"delay": 300}), {}, [exchange()]),
    ],
)
def test_a_toxic_that_was_met_without_its_signature_is_not_seen_and_kept_as_evidence(toxic, seen, there):
    fault = only_fault(armed(toxic), tried(**seen), *there)
    assert stages(fault) == (True, True, True, False, False, False)
    assert (fault.stage, fault.why_not) == ("met", "not_seen")
    assert [(one.try_, one.shows) for one in fault.tries] == [(1, False)]


def test_one_try_that_shows_it_is_enough_and_the_others_are_kept():
    fault = only_fault(armed(timeout()), tried(**CLOSED), tried(try_=2), LOST_REPLY, exchange(try_=2))
    assert fault.reached("observed")
    assert [(one.try_, one.shows) for one in fault.tries] == [(1, True), (2, False)]


def test_toxics_are_met_only_by_their_own_attempt_and_not_past_the_proxy():
    events = [armed(timeout()), tried(attempt=2, **CLOSED), tried(try_=2, route="direct", **CLOSED)]
    assert only_fault(*events).why_not == "not_exercised"


def test_a_request_at_the_gateway_without_a_callers_record_met_the_toxic():
    fault = only_fault(armed(timeout()), exchange())
    assert (fault.reached("met"), fault.reached("observed"), fault.why_not) == (True, False, "not_seen")


@pytest.mark.parametrize("toxic", [("gremlin", {}), ("latency", {"ratee": 3})])
def test_a_toxic_that_this_version_does_not_know_is_not_called_observed(toxic):
    kind, attributes = toxic
    fault = only_fault(armed(PlannedToxic("message", kind, "upstream", attributes)), tried())
    assert (fault.reached("met"), fault.reached("observed"), fault.why_not) == (True, False, "unknown_kind")


UNAVAILABLE = met()
REFUSED = {"error": "http_503", "status": 503}


def test_an_injected_error_that_the_caller_got_is_observed():
    fault = only_fault(armed(), tried(**REFUSED), exchange(status=503, fault=UNAVAILABLE))
    assert stages(fault) == (True,) * 6
    assert (fault.kind, fault.source, fault.stream, fault.attributes) == (
        "unavailable",
        "error",
        None,
        {"status": 503},
    )


def test_an_injected_error_that_a_toxic_swallowed_is_not_delivered():
    events = [armed(timeout()), tried(**CLOSED), exchange(status=503, fault=UNAVAILABLE)]
    toxic, error = gather(events).faults
    assert toxic.reached("observed")
    assert (error.reached("injected"), error.reached("observed"), error.delivered, error.why_not) == (
        True,
        False,
        False,
        "not_seen",
    )


def test_an_injected_error_whose_caller_keeps_no_record_counts_as_delivered():
    fault = only_fault(exchange(status=503, fault=UNAVAILABLE))
    assert (fault.reached("observed"), fault.delivered) == (False, True)


def test_an_error_on_the_model_link_is_matched_by_the_ordinal_alone():
    there = exchange("model", fingerprint="whatever", call=3, try_=2, status=503, fault=UNAVAILABLE)
    fault = only_fault(model_call(3, 2, status=503, error="http_503"), there)
    assert fault.reached("observed")


@pytest.mark.parametrize(
    ("events", "unexplained"),
    [
        ([tried()], 0),
        ([tried(**CLOSED)], 1),
        ([armed(timeout()), tried(**CLOSED), LOST_REPLY], 0),
        ([armed(timeout()), tried(error="connection_refused", ms=1.0)], 1),
        ([armed(timeout("search")), tried(**CLOSED)], 1),
        ([armed(timeout()), tried(route="direct", **CLOSED)], 1),
        ([tried(**REFUSED), exchange(status=503, fault=UNAVAILABLE)], 0),
        ([tried(**REFUSED), exchange(status=503)], 1),
        ([tried(error="http_400", status=400), exchange(status=400)], 0),
        ([tried(error="http_429", status=429), exchange(status=429)], 1),
        ([model_call(error="ReadTimeout", status=None)], 1),
    ],
)
def test_a_failed_try_that_no_fault_explains_is_unexplained(events, unexplained):
    assert len(gather(events).unexplained) == unexplained


def test_the_order_of_events_does_not_matter():
    events = [armed(timeout(), latency("search")), exchange(try_=2, status=503, fault=UNAVAILABLE)]
    events += [exchange(status=500, fault=met("server_error", 500)), tried(**REFUSED, try_=2)]
    events += [tried(error="http_500", status=500), tried("search", ms=310), exchange("search")]
    expected = [fault.as_dict() for fault in gather(events).faults]
    for seed in range(20):
        shuffled = random.Random(seed).sample(events, len(events))
        assert [fault.as_dict() for fault in gather(shuffled).faults] == expected


DIGEST = {"status": 200, "digest": "d1"}


def fate(fault):
    return fault.reached("injected"), fault.reached("observed"), fault.delivered, fault.why_not


@pytest.mark.parametrize(
    ("shows", "seen", "observed"),
    [
        (DIGEST, {"reply_digest": "d1"}, True),
        (DIGEST, {"reply_digest": "d2"}, False),
        (DIGEST, {}, True),  # the caller noted no digest: the status alone tells
        (DIGEST, {"reply_digest": "d1", "error": "bad_reply", "status": 200}, True),
        ({**DIGEST, "delay_ms": 500}, {"reply_digest": "d1", "ms": 20.0}, False),
        ({**DIGEST, "delay_ms": 500}, {"reply_digest": "d1", "ms": 501.0}, True),
        ({"lost": True}, {"error": "connection_reset"}, True),
        ({"lost": True}, {}, False),
        ({"lost": True}, {"error": "read_timeout"}, True),
        ({"lost": True, "closed": True}, {"error": "connection_closed"}, True),
        ({"lost": True, "closed": True}, {"error": "read_timeout"}, False),  # it had left before
        ({"delay_ms": 500}, {"ms": 460.0}, True),
        ({"delay_ms": 500}, {"ms": 400.0}, False),
        ({"delay_ms": 5000}, {"ms": 1001.0, "error": "read_timeout"}, True),  # as long as it could
        ({"delay_ms": 5000, "lost": True}, {"ms": 20.0, "error": "connection_closed"}, False),
    ],
)
def test_a_fault_is_observed_if_the_caller_saw_what_was_sent(shows, seen, observed):
    fault = only_fault(tried(**seen), exchange(fault=met("stale", id="s", shows=shows)))
    assert (fault.kind, fault.source, fault.entry) == ("stale", "fault", "s")
    assert fate(fault) == (True, observed, observed, None if observed else "not_seen")


def test_what_no_caller_can_see_is_delivered_when_it_is_injected():
    fault = only_fault(tried(), exchange(fault=met("duplicate_request", id="d", shows=None)))
    assert fate(fault) == (True, False, True, None)


def test_a_fault_that_changed_nothing_is_met_and_says_why():
    missed = met("stale", id="s", injected=False, shows=None, why_not="no_earlier_answer")
    fault = only_fault(tried(), exchange(fault=missed))
    assert (fault.stage, *fate(fault)) == ("met", False, False, False, "no_earlier_answer")


@pytest.mark.parametrize(
    ("fault", "seen", "unexplained"),
    [
        (met("truncate", shows={"lost": True}), CLOSED, 0),
        (met("wrong_value", shows=DIGEST), CLOSED, 0),
        (met("delay", shows={"delay_ms": 50}), CLOSED, 0),
        (met("delay", shows={"delay_ms": 500}), CLOSED, 1),  # the delay was not what ended it
        (met("overflow", shows=None), {"error": "http_500", "status": 500}, 0),
        (met("stale", shows=None, injected=False), {"error": "http_500", "status": 500}, 1),
    ],
)
def test_a_failure_that_a_fault_of_the_gateway_explains(fault, seen, unexplained):
    assert len(gather([tried(**seen), exchange(fault=fault)]).unexplained) == unexplained


def brief(toxic, begun=103.2, gone=103.21):
    """The attempt is armed with the toxic, which the manager ended in its midst."""
    return [
        armed(toxic),
        ToxicsChanged(gone, EPISODE, 1, "ended", [], ended=[toxic], begun=begun),
    ]


def test_what_began_after_a_toxic_s_end_did_not_meet_it_and_it_explains_nothing_of_it():
    late = tried(**CLOSED, start=103.3)
    evidence = gather([*brief(timeout()), late, exchange(start=103.3)])
    assert [fault.why_not for fault in evidence.faults] == ["not_exercised"]
    assert [failed.error for failed in evidence.unexplained] == ["connection_closed"]
    assert gather([armed(timeout()), late, exchange(complete=(True, True))]).unexplained == ()


@pytest.mark.parametrize(
    ("toxic", "seen", "there"),
    [
        (timeout(stream="downstream"), {"error": "connection_closed", "ms": 203.0}, [LOST_REPLY]),
        (timeout(stream="upstream", ms=0), {"error": "connection_closed", "ms": 203.0}, []),
        (latency(ms=300), {"ms": 205.0}, [exchange()]),
        (latency(ms=300), {"ms": 305.0, "start": 102.8}, [exchange()]),
    ],
)
def test_a_try_that_was_in_progress_shows_a_toxic_until_its_end(toxic, seen, there):
    evidence = gather([*brief(toxic), tried(**seen), *there])
    assert [fault.stage for fault in evidence.faults] == ["observed"]
    assert evidence.unexplained == ()


def test_a_connection_that_the_end_itself_closed_is_explained_by_it():
    closing = tried(error="connection_closed", ms=4.0, start=103.205)
    evidence = gather([*brief(timeout(stream="upstream")), closing])
    assert [fault.stage for fault in evidence.faults] == ["observed"] and evidence.unexplained == ()


def test_a_try_that_the_end_did_not_delay_does_not_show_it():
    quick = tried(ms=4.0, start=103.199)
    assert [fault.stage for fault in gather([*brief(latency()), quick, exchange()]).faults] == ["met"]
