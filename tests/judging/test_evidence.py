import random

import pytest

from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    evidence_of,
    exchange,
    fault_met,
    latency,
    model_call,
    timeout,
    tried,
)
from tests.support import replace
from wirefault.core.spans import Span
from wirefault.history.events import ConnectionEnded, ConnectionUnanswered, EpisodeStarted, ToxicsChanged
from wirefault.history.judged_events import STAGES
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import TOXICS

CLOSED = {"error": "connection_closed", "ms": 402.0}
LOST_REPLY = exchange(complete=(True, True), ms=3.0)


def only_fault(*events):
    (fault,) = evidence_of(events).faults
    return fault


def stages(fault):
    return (*(fault.reached(stage) for stage in STAGES[1:]), fault.delivered)


def test_toxic_without_calls_is_not_exercised():
    fault = only_fault(armed(timeout("search")), tried("message"))
    assert stages(fault) == (True, True, False, False, False, False)
    assert (fault.stage, fault.why_not, fault.tries) == ("armed", "not_exercised", ())


def test_toxic_is_unknown_without_caller_record():
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    for crossed, stage in (([], "armed"), ([exchange("search")], "met")):
        toxic = PlannedToxic("search", "cut_after", "downstream", {})
        fault = only_fault(opaque, armed(toxic), *crossed)
        assert (fault.stage, fault.delivered, fault.why_not) == (stage, None, "no_record")


def intercepted(**changes):
    """A TLS connection of a subject without a record, which sent its part of a handshake and got nothing."""
    options = {
        **{"t": 104.0, "link": "message", "episode": EPISODE, "attempt": 1, "opened": 103.0, "ms": 900.0},
        **{"first_byte_ms": None, "sent": 517, "received": 0, "ended_by": "proxy", "how": "fin"},
        **{"tls": True, "host": "mail.example", "port": 443, "tap": "namespace"},
    }
    return ConnectionEnded(**{**options, **changes})


@pytest.mark.parametrize(
    ("toxic", "changes", "fate"),
    [
        (timeout("message"), {}, (True, "ingress", None)),
        (timeout("message"), {"received": 900, "first_byte_ms": 5.0}, (False, "ingress", "not_seen")),
        (PlannedToxic("message", "slow_close", "downstream", {}), {}, (None, "caller", "no_record")),
        (PlannedToxic("message", "later", "downstream", {}), {}, (None, "caller", "no_record")),
    ],
)
def test_ingress_record_shows_toxic(toxic, changes, fate):
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    fault = only_fault(opaque, armed(toxic), intercepted(**changes))
    assert (fault.delivered, fault.delivered_by, fault.why_not) == fate


# Each toxic, its attributes, and a connection under it as the ingress sees it. The reply has 50 bytes.
LATE = {"first_byte_ms": 500.0, "received": 50, "ended_by": "client", "tls": False}
SLICED = {**LATE, "first_byte_ms": 5.0, "last_byte_ms": 600.0}
SILENT = {"tls": False}
PASSING = {
    "latency": ({"latency": 400}, LATE),
    "slicer": ({"average_size": 10, "delay": 100_000}, SLICED),
    "bandwidth": ({"rate": 1}, {}),
    "shared_bandwidth": ({"rate": 1}, {}),
    "timeout": ({"timeout": 400}, SILENT),
    "limit_data": ({"bytes": 20}, {"received": 20, "first_byte_ms": 5.0, "tls": False}),
    "reset_peer": ({}, {"how": "rst", "tls": False}),
}
# Each toxic that keeps requests from the gateway, its attributes, and a connection that it ended, at the
# gateway and at the ingress; then one that it may not have ended.
ENDED = {
    "limit_data": ({"bytes": 20}, {"received": 20}, {"tls": False}, {"received": 19}),
    "timeout": ({"timeout": 400}, {}, {"tls": False}, {"ms": 200.0}),
    "reset_peer": ({}, {"how": "rst"}, {"tls": False, "how": "rst"}, {"how": "fin"}),
    "cut_after": ({"age": 400}, {"received": 90}, {"tls": False}, {"ms": 200.0}),
}
# Nothing that reaches the gateway shows these.
UNSEEN = {"slow_close", "down", "unaccepted", "unresolved"}


def test_every_toxic_is_in_one_table():
    assert sorted({*PASSING, *ENDED, *UNSEEN}) == sorted(toxic.kind for toxic in TOXICS)


def unanswered(ms=450.0, received=0, how="fin", t=104.0):
    return ConnectionUnanswered(t, EPISODE, 1, "message", ms, received, how)


@pytest.mark.parametrize("kind", ENDED)
def test_toxic_that_ended_a_connection_is_delivered_with_and_without_an_ingress(kind):
    attributes, at_gateway, at_ingress, other = ENDED[kind]
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    toxic = armed(PlannedToxic("message", kind, "upstream", attributes))
    for more in ([], [intercepted(**at_ingress)]):
        fault = only_fault(opaque, toxic, unanswered(**at_gateway), *more)
        assert fault.delivered is True and fault.reached("injected"), more
    fault = only_fault(opaque, toxic, unanswered(**{**at_gateway, **other}))
    assert (fault.stage, fault.delivered) == ("met", None)


def test_timeout_without_end_ends_no_connection():
    """A client that leaves it may have been idle."""
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    toxic = PlannedToxic("message", "timeout", "upstream", {"timeout": 0})
    assert only_fault(opaque, armed(toxic), unanswered(ms=5000.0)).delivered is None


def test_toxic_that_came_later_ended_no_connection():
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    planned = PlannedToxic("message", "limit_data", "upstream", {"bytes": 20}, during=Span(1.0))
    began = ToxicsChanged(103.9, EPISODE, 1, "started", [], started=[planned], begun=103.8)
    fault = only_fault(opaque, armed(planned), began, unanswered(received=20))
    assert (fault.stage, fault.delivered) == ("met", None)


@pytest.mark.parametrize("kind", PASSING)
def test_toxic_that_acted_on_an_exchange_is_delivered_with_and_without_an_ingress(kind):
    attributes, seen = PASSING[kind]
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    events = [opaque, armed(PlannedToxic("message", kind, "downstream", attributes)), exchange("message")]
    for more in ([], [intercepted(**seen)]):
        fault = only_fault(*events, *more)
        assert fault.delivered is True and fault.reached("injected"), more


def test_delay_of_a_later_request_of_its_connection_is_delivered_with_an_ingress_too():
    """The ingress times the first byte of a connection alone."""
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    toxic = armed(PlannedToxic("message", "latency", "downstream", {"latency": 400}))
    prompt = intercepted(tls=False, received=50, first_byte_ms=5.0, ended_by="client")
    fault = only_fault(opaque, toxic, exchange("message"), prompt)
    assert (fault.delivered, fault.delivered_by, fault.why_not) == (True, "injection", None)


@pytest.mark.parametrize(
    ("kind", "attributes", "bytes_of_reply"),
    [
        pytest.param("latency", {"latency": 100, "jitter": 100}, 50, id="delay may be none"),
        pytest.param("latency", {"latency": 100}, 0, id="no reply"),
        pytest.param("limit_data", {"bytes": 50}, 50, id="reply is as long as the limit"),
        pytest.param("slicer", {"average_size": 50}, 50, id="one packet"),
        pytest.param("bandwidth", {"rate": 100}, 50, id="fast enough for it"),
        *(pytest.param(kind, {}, 50, id=kind) for kind in ("slow_close", "cut_after")),
    ],
)
def test_toxic_that_may_not_have_acted_is_unknown(kind, attributes, bytes_of_reply):
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    planned = PlannedToxic("message", kind, "downstream", attributes)
    fault = only_fault(opaque, armed(planned), exchange("message", reply_bytes=bytes_of_reply))
    assert (fault.delivered, fault.why_not) == (None, "no_record")


def test_handshake_at_ingress_marks_lost_try_as_tls():
    lost = tried(error="connection_closed", ms=402.0)
    for connections, observed in (([], False), ([intercepted(opened=0.0, t=1e9)], True)):
        toxic = timeout("message", stream="downstream")
        assert only_fault(armed(toxic), lost, *connections).reached("observed") is observed


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
        (PlannedToxic("message", "down", "downstream", {}), {"ms": 600.0, "refused": 9}, [exchange()]),
        # the request arrived after the client had left, so the fault cost the client no time
        (latency(ms=1200), {"ms": 1001.0, "error": "read_timeout"}, [exchange(start=104.2, ms=500.0)]),
        # a fault of the gateway and the toxic together were too long
        (latency(ms=800), {"ms": 1001.0, "error": "read_timeout"}, [exchange(ms=400.0)]),
    ],
)
def test_toxic_with_signature_is_observed(toxic, seen, there):
    evidence = evidence_of([armed(toxic), tried(**seen), *there])
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
def test_toxic_without_signature_is_not_seen(toxic, seen, there):
    fault = only_fault(armed(toxic), tried(**seen), *there)
    assert stages(fault) == (True, True, True, False, False, False)
    assert (fault.stage, fault.why_not) == ("met", "not_seen")
    assert [(one.try_, one.shows) for one in fault.tries] == [(1, False)]


def test_single_try_with_signature_suffices():
    fault = only_fault(armed(timeout()), tried(**CLOSED), tried(try_=2), LOST_REPLY, exchange(try_=2))
    assert fault.reached("observed")
    assert [(one.try_, one.shows) for one in fault.tries] == [(1, True), (2, False)]


def test_toxic_is_met_in_its_attempt_through_proxy():
    events = [armed(timeout()), tried(attempt=2, **CLOSED), tried(try_=2, route="direct", **CLOSED)]
    assert only_fault(*events).why_not == "not_exercised"


def test_exchange_without_caller_record_met_toxic():
    fault = only_fault(armed(timeout()), exchange())
    assert (fault.reached("met"), fault.reached("observed"), fault.why_not) == (True, False, "not_seen")


@pytest.mark.parametrize("toxic", [("gremlin", {}), ("latency", {"ratee": 3})])
def test_unknown_toxic_is_not_observed(toxic):
    kind, attributes = toxic
    fault = only_fault(armed(PlannedToxic("message", kind, "upstream", attributes)), tried())
    assert (fault.reached("met"), fault.reached("observed"), fault.why_not) == (True, False, "unknown_kind")


UNAVAILABLE = fault_met()
REFUSED = {"error": "http_503", "status": 503}


def test_error_that_reached_caller_is_observed():
    fault = only_fault(armed(), tried(**REFUSED), exchange(status=503, fault=UNAVAILABLE))
    assert stages(fault) == (True,) * 6
    assert (fault.kind, fault.source, fault.stream, fault.attributes) == (
        "unavailable",
        "error",
        None,
        {"status": 503},
    )


def test_error_swallowed_by_toxic_is_not_delivered():
    events = [armed(timeout()), tried(**CLOSED), exchange(status=503, fault=UNAVAILABLE)]
    toxic, error = evidence_of(events).faults
    assert toxic.reached("observed")
    assert (error.reached("injected"), error.reached("observed"), error.delivered, error.why_not) == (
        True,
        False,
        False,
        "not_seen",
    )


def test_error_without_caller_record_is_delivered():
    fault = only_fault(exchange(status=503, fault=UNAVAILABLE))
    assert (fault.reached("observed"), fault.delivered) == (False, True)


def test_model_request_is_matched_by_ordinal():
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
def test_failed_try_without_fault_is_unexplained(events, unexplained):
    assert len(evidence_of(events).unexplained) == unexplained


def test_order_of_events_is_irrelevant():
    events = [armed(timeout(), latency("search")), exchange(try_=2, status=503, fault=UNAVAILABLE)]
    events += [exchange(status=500, fault=fault_met("server_error", 500)), tried(**REFUSED, try_=2)]
    events += [tried(error="http_500", status=500), tried("search", ms=310), exchange("search")]
    expected = [fault.as_dict() for fault in evidence_of(events).faults]
    for seed in range(20):
        shuffled = random.Random(seed).sample(events, len(events))
        assert [fault.as_dict() for fault in evidence_of(shuffled).faults] == expected


DIGEST = {"status": 200, "digest": "d1"}
FAILED = {"error": "http_500", "status": 500}
GAVE_UP = {"error": "read_timeout", "ms": 1001.0}
BAD_REPLY = {"error": "bad_reply", "status": 200, "reply_digest": "d1"}


def fate(fault):
    return fault.reached("injected"), fault.reached("observed"), fault.delivered, fault.why_not


@pytest.mark.parametrize(
    ("shows", "seen", "observed"),
    [
        (DIGEST, {"reply_digest": "d1"}, True),
        (DIGEST, {"reply_digest": "d2"}, False),
        (DIGEST, {}, True),  # the caller noted no digest, so only the status counts
        (DIGEST, {"reply_digest": "d1", "error": "bad_reply", "status": 200}, True),
        ({**DIGEST, "delay_ms": 500}, {"reply_digest": "d1", "ms": 20.0}, False),
        ({**DIGEST, "delay_ms": 500}, {"reply_digest": "d1", "ms": 501.0}, True),
        ({"lost": True}, {"error": "connection_reset"}, True),
        ({"lost": True}, {}, False),
        ({"lost": True}, {"error": "read_timeout"}, True),
        ({"lost": True, "left": True}, {"error": "read_timeout"}, True),
        ({"lost": True, "left": True}, {}, True),  # it had read enough of a stream
        ({"lost": True, "left": True}, {"reply_digest": "d1"}, False),
        ({"lost": True, "closed": True}, {"error": "connection_closed"}, True),
        ({"lost": True, "closed": True}, {"error": "read_timeout"}, False),  # it had left before
        ({"delay_ms": 500}, {"ms": 460.0}, True),
        ({"delay_ms": 500}, {"ms": 400.0}, False),
        ({"delay_ms": 5000}, {"ms": 1001.0, "error": "read_timeout"}, True),  # as long as it could
        ({"delay_ms": 5000, "lost": True}, {"ms": 20.0, "error": "connection_closed"}, False),
    ],
)
def test_fault_is_observed_in_callers_reply(shows, seen, observed):
    fault = only_fault(tried(**seen), exchange(fault=fault_met("stale", id="s", shows=shows)))
    assert (fault.kind, fault.source, fault.entry) == ("stale", "fault", "s")
    assert fate(fault) == (True, observed, observed, None if observed else "not_seen")


@pytest.mark.parametrize(
    ("seen", "acted_ms", "observed"),
    [
        ({"error": "read_timeout", "ms": 500.0}, 300.0, True),
        ({"error": "read_timeout", "ms": 500.0}, 600.0, False),  # the client had left before
        # the request was on its way for long
        ({"error": "read_timeout", "ms": 500.0, "start": 102.0}, 0.0, False),
        # the two clocks of one end, read on a busy machine
        ({"error": "connection_closed", "ms": 500.0}, 520.0, True),
        ({"error": "connection_reset", "ms": 500.0}, 600.0, False),
    ],
)
def test_client_that_left_early_did_not_observe_fault(seen, acted_ms, observed):
    hang = fault_met("hang", id="h", shows={"lost": True}, acted_ms=acted_ms)
    delay = fault_met("delay", id="d", shows={"delay_ms": 5000.0}, acted_ms=acted_ms)
    for fault in (hang, delay) if "timeout" in seen["error"] else (hang,):
        assert only_fault(tried(**seen), exchange(fault=fault)).delivered is observed


@pytest.mark.parametrize("tries", [[], [tried()]])
@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (True, (True, True, True, None)),
        (False, (True, False, False, "not_seen")),
    ],
)
def test_changed_request_is_delivered_by_upstream_answer(tries, answered, expected):
    fault = only_fault(*tries, exchange(fault=fault_met("overflow", id="o", shows=None, answered=answered)))
    assert (fate(fault), fault.delivered_by) == (expected, "upstream")


@pytest.mark.parametrize(
    ("events", "side"),
    [
        ([tried(), exchange(fault=fault_met("stale", shows=DIGEST))], "caller"),
        ([exchange(fault=fault_met("stale", shows=DIGEST))], "injection"),
        ([tried(), exchange(fault=fault_met("overflow", shows=None))], "injection"),
        ([armed(timeout())], "caller"),
    ],
)
def test_delivered_by(events, side):
    assert only_fault(*events).delivered_by == side


def test_cut_reply_shows_toxic():
    slow = exchange(complete=(True, False), status=None, ms=405.0, client_left=True)
    assert only_fault(armed(timeout()), tried(**CLOSED), slow).reached("observed")
    assert not only_fault(armed(timeout(ms=0)), tried(**GAVE_UP), slow).reached("observed")


def test_fault_without_effect_has_reason():
    missed = fault_met("stale", id="s", injected=False, shows=None, why_not="no_earlier_answer")
    fault = only_fault(tried(), exchange(fault=missed))
    assert (fault.stage, *fate(fault)) == ("met", False, False, False, "no_earlier_answer")


@pytest.mark.parametrize(
    ("fault", "seen", "unexplained"),
    [
        (fault_met("truncate", shows={"lost": True, "closed": True}), CLOSED, 0),
        (fault_met("wrong_value", shows=DIGEST), CLOSED, 1),  # it only changes the content of the reply
        (fault_met("wrong_value", shows=DIGEST), BAD_REPLY, 1),
        (fault_met("malformed", shows=DIGEST), BAD_REPLY, 0),
        (fault_met("malformed", shows=DIGEST), CLOSED, 1),
        (fault_met("unavailable", 503), REFUSED, 0),
        (fault_met("unavailable", 503), CLOSED, 1),  # its reply got lost through something else
        (fault_met("delay", shows={"delay_ms": 20}), CLOSED, 1),
        (fault_met("delay", shows={"delay_ms": 20}), FAILED, 1),
        (fault_met("delay", shows={"delay_ms": 20}), GAVE_UP, 1),
        (fault_met("delay", shows={"delay_ms": 950}), GAVE_UP, 0),
        (fault_met("hang", shows={"lost": True}), GAVE_UP, 0),
        (fault_met("hang", shows={"lost": True}), CLOSED, 0),  # the gateway ends a hang
        (fault_met("hang", shows={"lost": True}, causes=["timeout"]), CLOSED, 1),
        (fault_met("hang", shows={"lost": True}, acted_ms=1200), GAVE_UP, 1),  # the client had left before
        (
            fault_met("hang", shows={"lost": True}, causes=["closed"]),
            GAVE_UP,
            1,
        ),  # the gateway's own reply counts
        (fault_met("stale", shows=None, injected=False), FAILED, 1),
    ],
)
def test_gateway_fault_explains_only_errors_it_can_cause(fault, seen, unexplained):
    there = exchange(fault=fault, complete=(True, False))
    assert len(evidence_of([tried(**seen), there]).unexplained) == unexplained


@pytest.mark.parametrize(
    ("own_ms", "unexplained"), [(700.0, 0), (100.0, 1), (1500.0, 1)]
)  # time of the upstream, in addition to a delay of 300 ms and a limit of 1000 ms
def test_delay_explains_timeout_with_upstream_time(own_ms, unexplained):
    there = exchange(ms=own_ms + 300, fault=fault_met("delay", shows={"delay_ms": 300.0}))
    assert len(evidence_of([tried(**GAVE_UP), there]).unexplained) == unexplained


def of_request(*statuses, answered=True, kind="duplicate_request", **more):
    evidence = {"statuses": list(statuses)} if statuses else {}
    return fault_met(kind, shows=None, evidence=evidence, answered=answered, **more)


@pytest.mark.parametrize(
    ("fault", "seen", "there", "unexplained"),
    [
        (of_request(kind="overflow"), FAILED, {"status": 500}, 0),
        (of_request(kind="overflow"), FAILED, {"status": 502, "error": "cannot be reached"}, 1),
        (of_request(kind="overflow"), CLOSED, {"status": None}, 1),
        (of_request(kind="overflow", answered=False), FAILED, {"status": 500}, 1),
        (of_request(200, 409), {"error": "http_409", "status": 409}, {"status": 409}, 0),
        (of_request(200, 500), FAILED, {"status": 500}, 0),
        (of_request(500, 500), FAILED, {"status": 500}, 1),  # it failed at the first copy too
        (of_request(200), GAVE_UP, {"status": None, "complete": (True, False)}, 0),
        (of_request(200, acted_ms=1100.0), GAVE_UP, {"status": None}, 1),  # it gave up before the second copy
    ],
)
def test_changed_request_explains_upstream_answer(fault, seen, there, unexplained):
    assert len(evidence_of([tried(**seen), exchange(fault=fault, **there)]).unexplained) == unexplained


@pytest.mark.parametrize(
    ("toxic", "seen", "there", "unexplained"),
    [
        (latency(ms=20), FAILED, [exchange(status=500)], 1),
        (latency(ms=300), {"ms": 320.0, "error": "connection_closed"}, [exchange()], 1),
        (latency(ms=20), GAVE_UP, [exchange(ms=960.0, complete=(True, False))], 1),
        (latency(ms=20), GAVE_UP, [exchange(ms=965.0)], 0),  # the upstream's time and the delay together
        (latency(ms=1500), GAVE_UP, [], 0),
        (timeout(), {"ms": 402.0, "error": "connection_refused"}, [LOST_REPLY], 1),
        (timeout(ms=0), GAVE_UP, [LOST_REPLY], 0),
    ],
)
def test_toxic_explains_only_errors_it_can_cause(toxic, seen, there, unexplained):
    assert len(evidence_of([armed(toxic), tried(**seen), *there]).unexplained) == unexplained


def test_several_toxics_explain_their_own_errors():
    events = [armed(timeout(), latency(ms=50)), tried(**CLOSED), LOST_REPLY]
    assert evidence_of(events).unexplained == ()


def test_model_errors_have_other_names():
    events = [armed(latency("model", ms=500)), model_call(status=None, ms=500.0, error="ReadTimeout")]
    evidence = evidence_of(events)
    assert evidence.unexplained == () and evidence.faults[0].delivered


def test_404_of_unavailable_service_is_not_refusal():
    absent = exchange("model", fingerprint="", status=404, unavailable=True)
    assert len(evidence_of([model_call(status=404, error="http_404"), absent]).unexplained) == 1


def brief(toxic, begun=103.2, gone=103.21):
    """The attempt is armed with the toxic, which the manager ended during it."""
    return [
        armed(toxic),
        ToxicsChanged(gone, EPISODE, 1, "ended", [], ended=[toxic], begun=begun),
    ]


def test_try_after_toxic_end_did_not_meet_it():
    late = tried(**CLOSED, start=103.3)
    evidence = evidence_of([*brief(timeout()), late, exchange(start=103.3)])
    assert [fault.why_not for fault in evidence.faults] == ["not_exercised"]
    assert [failed.error for failed in evidence.unexplained] == ["connection_closed"]
    assert evidence_of([armed(timeout()), late, exchange(complete=(True, True))]).unexplained == ()


@pytest.mark.parametrize(
    ("toxic", "seen", "there"),
    [
        (timeout(stream="downstream"), {"error": "connection_closed", "ms": 203.0}, [LOST_REPLY]),
        (timeout(stream="upstream", ms=0), {"error": "connection_closed", "ms": 203.0}, []),
        (latency(ms=300), {"ms": 205.0}, [exchange()]),
        (latency(ms=300), {"ms": 305.0, "start": 102.8}, [exchange()]),
    ],
)
def test_try_in_progress_shows_toxic_until_its_end(toxic, seen, there):
    evidence = evidence_of([*brief(toxic), tried(**seen), *there])
    assert [fault.stage for fault in evidence.faults] == ["observed"]
    assert evidence.unexplained == ()


def started(toxic, begun=103.0, t=103.01, attributes=None):
    """The manager's record that the toxic is in force from then on, maybe in another dose."""
    dose = toxic if attributes is None else replace(toxic, attributes=attributes)
    return ToxicsChanged(t, EPISODE, 1, "started", [], started=[dose], begun=begun)


def test_toxic_that_never_started_is_only_drawn():
    later = replace(timeout(), during=Span(60.0))
    fault = only_fault(armed(later), tried(), exchange())
    assert (fault.stage, fault.why_not, fault.delivered) == ("drawn", "not_started", False)


def test_try_before_toxic_start_did_not_meet_it():
    later = replace(timeout(), during=Span(1.0))
    fault = only_fault(armed(later), started(later, begun=104.0, t=104.01), tried(start=103.0), exchange())
    assert (fault.stage, fault.why_not) == ("armed", "not_exercised")


@pytest.mark.parametrize(("begun", "stage"), [(103.1, "observed"), (102.0, "met")])
def test_connection_cut_by_down_shows_toxic(begun, stage):
    down = PlannedToxic("message", "down", "downstream", {}, during=Span(1.0))
    cut = tried(error="connection_closed", start=103.0, ms=105.0)
    evidence = evidence_of([armed(down), started(down, begun=begun), cut, exchange(complete=(True, False))])
    assert [fault.stage for fault in evidence.faults] == [stage]
    assert (evidence.unexplained == ()) is (stage == "observed")


def test_try_is_compared_with_dose_of_its_time():
    rising = replace(latency(ms=400), during=Span(1.0, 8.0, ramp=3.0))
    doses = [
        started(rising, begun=102.0 + n, t=102.0 + n, attributes={"latency": 100 * n, "jitter": 0})
        for n in (1, 2)
    ]
    for ms, stage in ((105.0, "observed"), (50.0, "met")):
        fault = only_fault(armed(rising), *doses, tried(start=103.2, ms=ms), exchange(start=103.2))
        assert fault.stage == stage


def test_connection_closed_by_toxic_end_is_explained():
    closing = tried(error="connection_closed", ms=4.0, start=103.205)
    evidence = evidence_of([*brief(timeout(stream="upstream")), closing])
    assert [fault.stage for fault in evidence.faults] == ["observed"] and evidence.unexplained == ()


def test_quick_try_does_not_show_latency():
    quick = tried(ms=4.0, start=103.199)
    assert [fault.stage for fault in evidence_of([*brief(latency()), quick, exchange()]).faults] == ["met"]
