"""Writes repeated after a lost reply or another failure."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import CRM, SHOP, lost, model_request, observed, request, rule_findings
from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    exchange,
    fault_met,
    latency,
    message_sent,
    timeout,
    tried,
    world,
)
from tests.support import replace
from wirefault.history.events import ConnectionEnded, SubjectKilled
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link, Links, lab_links

GAVE = {"upstream_status": 201}
AGAIN = request(0.4, status=201)


def left_at(t, opened):
    """A connection that its client closed then, without a byte of the reply."""
    ended = {
        "first_byte_ms": None,
        "sent": 100,
        "received": 0,
        "ended_by": "client",
        "how": "fin",
        "tls": False,
    }
    where = {
        "link": "shop",
        "episode": EPISODE,
        "attempt": 1,
        "host": "127.0.0.1",
        "port": 9000,
        "tap": "proxy",
    }
    return ConnectionEnded(t=t, opened=opened, ms=(t - opened) * 1000, **ended, **where)


def write_repeated(*events, **more):
    return observed(WRITE_REPEATED, *events, **more)


def test_write_repeated_without_key():
    assert write_repeated(lost(), AGAIN) == [
        "POST /orders was sent again 390 ms after its reply was lost, by the client; both were"
        " executed, with no Idempotency-Key"
    ]


def test_lost_reply_in_subjects_record():
    tries = [tried(error="read_timeout", ms=400, idempotency_key="a"), exchange(method="POST", status=201)]
    again = [
        tried(start=103.9, call=2, idempotency_key="b"),
        exchange(method="POST", status=201, start=103.9, call=2),
    ]
    assert write_repeated(*tries, *again, links=Links(())) == [
        "POST / was sent again 500 ms after its reply was lost, by the model; both were executed,"
        " with another Idempotency-Key"
    ]


KILLED = SubjectKilled(100.2, "001", 1, 1, "shop", "crash", "before_reply", "kill", True, 2.0)


@pytest.mark.parametrize(
    ("first", "after"),
    [
        (lost(), "390 ms after its reply was lost, because the subject was killed and resumed"),
        (request(status=201), "390 ms after it had succeeded, because the subject was killed and resumed"),
    ],
)
def test_repetition_after_kill_says_so(first, after):
    [finding] = rule_findings(WRITE_REPEATED, first, KILLED, AGAIN)
    text = f"POST /orders was sent again {after}; both were executed, with no Idempotency-Key"
    assert (finding.text, finding.severity) == (text, "harmful")
    assert len(finding.evidence) == 3


def test_repetition_before_kill_does_not_mention_it():
    [text] = write_repeated(lost(), AGAIN, replace(KILLED, t=100.9))
    assert "killed" not in text


def test_evidence_names_both_requests():
    assert rule_findings(WRITE_REPEATED, lost(), AGAIN)[0].evidence == ("gateway-0:1", "gateway-0:2")


def test_possibly_executed_write():
    assert "it may have been executed twice" in write_repeated(lost(status=None), AGAIN)[0]


def test_reply_lost_by_fault():
    fault = fault_met("lose_reply", id="lost", shows={"lost": True}, evidence=GAVE)
    assert "both were executed" in write_repeated(lost(status=None, fault=fault, forwarded=True), AGAIN)[0]


def test_reply_lost_by_toxic():
    assert len(write_repeated(armed(timeout("shop")), request(status=201), AGAIN)) == 1


@pytest.mark.parametrize(
    ("late", "pause_s", "severities"),
    [
        (latency("shop", "downstream", 500), 0.4, ["risky"]),
        (latency("shop", "downstream", 500), 0.5, []),  # the reply may have arrived before
        (latency("shop", "downstream", 500, jitter=100), 0.4, []),
        (latency("shop", "upstream", 500), 0.4, []),  # it delays requests, whose replies arrive at once
        (latency("crm", "downstream", 500), 0.4, []),
        (replace(latency("shop", "downstream", 500), seconds=1.0), 0.4, []),
    ],
)
def test_write_sent_again_before_a_latency_let_its_reply_through(late, pause_s, severities):
    findings = rule_findings(WRITE_REPEATED, armed(late), request(status=201), request(pause_s, status=201))
    assert [finding.severity for finding in findings] == severities
    assert not findings or findings[0].text == (
        "POST /orders was sent again 390 ms after it, before a latency of 500 ms let its reply through;"
        " both were executed, with no Idempotency-Key"
    )


@pytest.mark.parametrize(
    ("kind", "attributes", "severities"),
    [
        (
            "slicer",
            {"average_size": 20, "size_variation": 5, "delay": 400_000},
            ["risky"],
        ),  # 7 pauses of 0.4 s
        ("slicer", {"average_size": 20, "size_variation": 5, "delay": 1000}, []),
        ("bandwidth", {"rate": 1}, []),  # 0.2 s
    ],
)
def test_write_sent_again_before_a_slow_reply_was_through(kind, attributes, severities):
    slow = PlannedToxic("shop", kind, "downstream", attributes)
    both = request(status=201, reply_bytes=200), request(1.4, status=201, reply_bytes=200)
    findings = rule_findings(WRITE_REPEATED, armed(slow), *both)
    assert [finding.severity for finding in findings] == severities
    assert not findings or "before a slicer of 2.8 s let its reply through" in findings[0].text


def test_connection_shows_that_the_client_left_before_a_toxic_let_the_reply_through():
    slow = PlannedToxic(
        "shop", "slicer", "upstream", {"average_size": 20, "size_variation": 5, "delay": 400_000}
    )
    fields = {"status": 201, "seconds": 2.5, "reply_bytes": 200, "opened_ms": 0.0}
    both = request(0.4, **fields), request(1.9, **fields)
    went = [left_at(101.5, opened=100.0), left_at(103.0, opened=101.5)]
    [finding] = rule_findings(WRITE_REPEATED, armed(slow), *both, *went)
    assert finding.severity == "risky"
    assert (
        "1.5 s after the first, before a toxic let a whole reply through; both were executed" in finding.text
    )
    whole = [replace(each, received=500) for each in went]
    assert rule_findings(WRITE_REPEATED, armed(slow), *both, *whole) == []


def test_undeclared_write():
    post = {"link": "crm", "target": "/notes"}
    assert len(write_repeated(lost(**post), request(0.4, **post), links=Links([CRM]))) == 1


@pytest.mark.parametrize("first", [{"complete": (True, False)}, {"status": 500, "upstream_status": 204}])
@pytest.mark.parametrize(("method", "severity"), [("DELETE", "note"), ("PUT", "note"), ("POST", "harmful")])
def test_repetition_of_an_executed_write_is_a_note_where_http_allows_it(first, method, severity):
    order = {"method": method, "target": "/orders/17", "link": "crm"}
    events = [lost(**order, **first), request(0.4, **order)]
    [finding] = rule_findings(WRITE_REPEATED, *events, links=Links([CRM]))
    assert finding.severity == severity
    assert ("the second changes nothing more" in finding.text) == (severity == "note")


def test_repeated_delete_that_may_not_have_been_executed_is_no_finding():
    delete = {"method": "DELETE", "target": "/orders/17"}
    assert write_repeated(lost(**delete, status=None), request(0.4, **delete)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([lost(key="k"), request(0.4, key="k")], id="shared key"),
        pytest.param([lost(dialect=""), request(0.4, dialect="")], id="history without keys"),
        pytest.param([request(status=201), AGAIN], id="reply arrived"),
        pytest.param([lost(forwarded=False), AGAIN], id="never forwarded"),
        pytest.param([lost(status=422), AGAIN], id="refused"),
        pytest.param([lost(), request(0.4, status=429, forwarded=False)], id="repetition not forwarded"),
        pytest.param([lost(seconds=0.5), AGAIN], id="asked for at the same time"),
        pytest.param([lost(fingerprint="a"), request(0.4, fingerprint="b")], id="another order"),
        pytest.param([lost(), request(0.4, attempt=2)], id="another attempt"),
        pytest.param(
            [armed(latency("shop")), request(status=201), AGAIN], id="not known whether it was lost"
        ),
        pytest.param(
            [lost(status=None), request(0.1, method="GET", fingerprint="g"), AGAIN], id="looked before"
        ),
        pytest.param([lost(target="/quotes"), request(0.4, target="/quotes")], id="declared as no write"),
        pytest.param([lost(key="k"), request(0.2, key="k"), request(9.0)], id="known to be done in between"),
    ],
)
def test_write_repeated_near_misses(events):
    assert write_repeated(*events) == []


CALL = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
SERVER = Links([Link("shop", "http://127.0.0.1:9/mcp", "mcp")])


def test_repeated_mcp_tool_is_named():
    findings = write_repeated(lost(**CALL), request(0.4, status=200, **CALL), links=SERVER)
    assert findings[0].startswith("add_order was sent again")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("result", "result"), "both were executed"),
        (("", "result"), "it may have been executed twice"),
        (("error", "result"), None),
        (("result", "error"), None),
    ],
)
def test_mcp_tool_answer_decides_execution(answers, expected):
    first, again = ({**CALL, "tool_answer": answer} for answer in answers)
    findings = write_repeated(lost(**first), request(0.4, status=200, **again), links=SERVER)
    assert [text.count(expected) for text in findings] == ([1] if expected else [])


def test_other_mcp_messages_are_not_writes():
    listed = {**CALL, "message": "tools/list", "tool": ""}
    assert write_repeated(lost(**listed), request(0.4, status=200, **listed), links=SERVER) == []


PRICE = {"method": "GET", "target": "/price", "fingerprint": "g"}
FAILED = request(0.1, status=500, forwarded=False, **PRICE)
ORDERED = request(status=201)
ASK = '{"messages": [{"role": "user", "content": "Order tea"}]}'
RESULT = '{"messages": [{"role": "user", "content": "Order tea"}, {"role": "tool", "content": "ordered"}]}'


def test_whole_step_retried_after_later_failure():
    [finding] = rule_findings(WRITE_REPEATED, ORDERED, FAILED, AGAIN)
    assert finding.text == (
        "POST /orders was sent again 390 ms after it had succeeded, because GET /price failed with 500;"
        " both were executed, with no Idempotency-Key"
    )
    assert (finding.severity, finding.evidence) == ("harmful", tuple(f"gateway-0:{n}" for n in (1, 2, 3)))


def test_step_repeated_because_a_concurrent_request_failed_first():
    order = request(status=201, ms=300)
    failed = request(0.1, "/notes/1", method="PUT", status=500, forwarded=False)
    assert write_repeated(order, failed, AGAIN)[0].startswith("POST /orders was sent again")
    assert write_repeated(order, request(-1, "/notes/1", method="PUT", status=500), AGAIN) == []


def test_step_repeated_because_a_tool_answered_with_an_error():
    noted = request(0.1, **{**CALL, "tool": "note", "fingerprint": "n", "tool_answer": "error"})
    orders = [request(at, **{**CALL, "tool_answer": "result"}) for at in (0.0, 0.4)]
    [finding] = write_repeated(orders[0], noted, orders[1], links=SERVER)
    assert "because note answered with an error; both were executed" in finding


def test_write_repeated_after_error_for_executed_one():
    struck = request(status=503, upstream_status=201, fault=fault_met(evidence=GAVE), forwarded=True)
    assert "after a 503, although it had been executed" in write_repeated(struck, AGAIN)[0]


def test_step_restarted_with_same_model_request():
    first = [model_request(0, ASK), request(0.1, status=201), model_request(0.2, RESULT, status=500)]
    again = [model_request(0.3, ASK), request(0.4, status=201)]
    assert len(write_repeated(*first, *again)) == 1


def test_generated_id_in_second_body():
    bodies = (f'{{"item": "tea", "order_id": "{order}"}}' for order in ("ord_9f3kq82d", "ord_41mzx0qa"))
    first, again = ({"request_body": body, "fingerprint": body} for body in bodies)
    assert len(write_repeated(lost(**first), request(0.4, status=201, **again))) == 1


def test_reply_that_broke_off_is_not_called_lost():
    [text] = write_repeated(lost(reply_bytes=70), AGAIN)
    assert text.startswith(
        "POST /orders was sent again 390 ms after its reply broke off, by the client; both"
    )


def test_faulted_success_is_named_with_its_fault():
    emptied = request(status=201, faults=[fault_met("empty", status=201)])
    [text] = write_repeated(emptied, AGAIN)
    assert "after a faulted 201 (empty), although it had been executed" in text


@pytest.mark.parametrize("parallel", [-0.002, 0.002])
def test_lost_reply_of_one_of_two_parallel_writes_is_the_cause(parallel):
    [finding] = rule_findings(WRITE_REPEATED, lost(), request(parallel, status=201), AGAIN)
    assert finding.text == (
        "POST /orders was sent again 390 ms after its reply was lost, by the client; both were executed,"
        " with no Idempotency-Key; equal calls were in progress at the same time, so this one may be planned,"
        " too"
    )
    assert finding.severity == "risky"


def test_writes_of_threads_that_connect_after_the_loss_may_be_planned():
    [finding] = rule_findings(WRITE_REPEATED, lost(), AGAIN, request(0.401, status=201))
    assert "so this one may be planned, too" in finding.text and finding.severity == "risky"


def test_client_that_left_does_not_make_its_next_try_a_planned_one():
    """The gateway learns late that a client has left."""
    left = [lost(at, seconds=0.2, client_left=True, left_ms=200.0) for at in (0.0, 0.15)]
    [finding] = rule_findings(WRITE_REPEATED, *left, AGAIN)
    assert finding.severity == "harmful" and "planned" not in finding.text


def test_equal_write_that_began_before_the_loss_repeats_nothing():
    assert write_repeated(lost(), request(0.005, status=201)) == []


def test_failure_counts_from_the_start_of_the_first_request():
    order, note = (
        request(0, seconds=0.3, status=201),
        request(0.05, method="PUT", target="/notes/1", status=500),
    )
    again = [request(0.4, status=201), request(0.41, method="PUT", target="/notes/1", status=200)]
    assert [text.partition(" again")[0] for text in write_repeated(order, note, *again)] == [
        "POST /orders was sent"
    ]


def test_step_is_repeated_although_its_write_is_still_in_progress():
    """A slow upstream does not make it another event."""
    order, again = request(0, seconds=0.9, status=201), request(0.4, status=201)
    notes = [
        request(at, "/notes/1", method="PUT", status=status, fingerprint="note")
        for at, status in ((0.05, 500), (0.41, 200))
    ]
    [finding] = rule_findings(WRITE_REPEATED, order, again, *notes)
    assert "again 400 ms after the first, before its answer, because PUT /notes/1 failed" in finding.text
    assert finding.severity == "risky" and "may be planned" in finding.text
    assert write_repeated(order, again, notes[0]) == []


STDIO = Links([Link("shop", "stdio", "mcp", command=("shop",))])
HANGS = {"seconds": 9, "faults": [fault_met(kind="hang", evidence=GAVE)]}
DELAYED = {"seconds": 9, "faults": [replace(fault_met(kind="delay", evidence=GAVE), delay_ms=8000.0)]}


@pytest.mark.parametrize("late", [HANGS | {"complete": (True, False), "client_left": True}, DELAYED])
def test_client_that_gave_up_without_closing_its_connection(late):
    call = CALL | {"tool_answer": "result", "status": 200}
    calls = [request(0, **call | late), request(4, **call)]
    [finding] = rule_findings(WRITE_REPEATED, *calls, links=STDIO)
    assert finding.text == (
        "add_order was sent again 4 s after the first, still without an answer, by the client; both were"
        " executed, with no Idempotency-Key"
    )
    assert finding.severity == "harmful"
    [finding] = rule_findings(WRITE_REPEATED, *calls, links=SERVER)
    assert finding.severity == "risky" and "may be planned" in finding.text
    assert write_repeated(calls[0], request(0.3, **call), links=STDIO) == []


def test_repeated_step_of_client_that_gave_up_without_closing_its_connection() -> None:
    call = CALL | {"tool_answer": "result", "status": 200}
    read = {"message": "tools/call", "tool": "list_notes", "fingerprint": "list", "tool_answer": "result"}
    reads = [request(at, **CALL | read) for at in (-1, 3.9)]
    [text] = write_repeated(reads[0], request(0, **call | DELAYED), reads[1], request(4, **call), links=STDIO)
    assert "still without an answer, by a repeated step; both were executed" in text


def test_slow_server_over_http_may_still_be_awaited():
    assert write_repeated(request(0, seconds=9, status=201), request(4, status=201)) == []


def test_repetitions_of_one_write_are_one_finding():
    [text] = write_repeated(lost(), lost(0.4), lost(0.8), request(1.2, status=201))
    assert text.endswith("; it was executed 4 times in total")


def test_client_timeout_before_slow_server_replies():
    slow = request(
        0, status=None, seconds=2, complete=(True, False), client_left=True, left_ms=1000.0, **GAVE
    )
    assert write_repeated(slow, request(1.1, status=201)) == [
        "POST /orders was sent again 100 ms after the client had given up on it, 1 s after it was sent,"
        " by the client; both were executed, with no Idempotency-Key"
    ]


def test_backend_call_of_mcp_tool_is_same_write():
    links = Links([Link("notes", "http://127.0.0.1:9/mcp", "mcp"), SHOP])
    call = {"link": "notes", "target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
    inner = {"fingerprint": "order", "status": 201}
    once = [request(0, seconds=0.3, **call), request(0.1, **inner)]
    assert write_repeated(*once, links=links) == []
    lost_call = [lost(0, seconds=0.3, **call), request(0.1, **inner)]
    [text] = write_repeated(*lost_call, request(1, seconds=0.3, **call), request(1.1, **inner), links=links)
    assert text.startswith("add_order was sent again 700 ms after its reply was lost, by the client; both")


def test_backend_call_after_tool_caller_left_is_same_write():
    links = Links([Link("notes", "http://127.0.0.1:9/mcp", "mcp"), SHOP])
    call = {"link": "notes", "target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
    left = {"complete": (True, False), "client_left": True, "left_ms": 1000.0, "seconds": 3}
    calls = [request(0, **left, **call), request(4, seconds=0.3, **call)]
    orders = [request(at, fingerprint="order", status=201) for at in (2, 4.1)]
    [text] = write_repeated(*calls, *orders, links=links)
    given_up = "after the client had given up on it, 1 s after it was sent"
    assert text.startswith(f"add_order was sent again 3 s {given_up}; both were executed")


WORLD = [message_sent("Alice", key=f"k{number}") for number in range(6)]


def test_world_shows_unanswered_write():
    tries = [
        tried("message", error="read_timeout", ms=400, start=103.0 + n, call=n + 1, idempotency_key=f"k{n}")
        for n in range(6)
    ]
    unanswered = [
        exchange("message", method="POST", status=None, start=103.0 + n, call=n + 1, complete=(True, False))
        for n in range(6)
    ]
    links = lab_links()
    [text] = write_repeated(*tries, *unanswered, world(*WORLD), links=links)
    assert "both were executed" in text and text.endswith("it was executed 6 times in total")
    assert write_repeated(*tries, *unanswered, world(WORLD[0]), links=links) == []
    [text] = write_repeated(*tries, *unanswered, world(error="unreadable"), links=links)
    assert "it may have been executed twice" in text


GRAPHQL = {"link": "crm", "target": "/graphql"}
QUERY = '{"query": "query Orders { orders(first: 2) { id mutation } }"}'
MUTATION = '{"query": "mutation Order { order(item: \\"tea\\") { id } }"}'


def test_graphql_mutation_is_a_write():
    mutations = (lost(**GRAPHQL, request_body=MUTATION), request(0.4, **GRAPHQL, request_body=MUTATION))
    assert len(write_repeated(*mutations)) == 1


LOOK = '{"name": "look", "annotations": {"readOnlyHint": true}}'
TOOLS = f'{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": [{LOOK}]}}}}'
LISTED = request(0, link="shop", target="/mcp", dialect="mcp", message="tools/list", reply_body=TOOLS)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([ORDERED, request(0.1, **PRICE), AGAIN], id="nothing failed"),
        pytest.param([ORDERED, FAILED, request(0.4, fingerprint="other", status=201)], id="another wording"),
        pytest.param([FAILED, request(0.2, status=201), AGAIN], id="failed before"),
        pytest.param(
            [ORDERED, FAILED, model_request(0.2, RESULT), AGAIN], id="a model decided with the first result"
        ),
        pytest.param(
            [request(status=201, method="PUT"), FAILED, request(0.4, status=201, method="PUT")], id="PUT"
        ),
        pytest.param(
            [request(at, method="DELETE", target="/orders/1") for at in (0, 0.4)] + [FAILED],
            id="DELETE",
        ),
        pytest.param([lost(status=308), AGAIN], id="redirected with 308"),
        pytest.param([lost(status=307), AGAIN], id="redirected with 307"),
        pytest.param([request(key="k"), FAILED, request(0.4, key="k")], id="shared key after a failure"),
        pytest.param(
            [lost(request_body=(body := '{"idempotency_key": "k"}')), request(0.4, request_body=body)],
            id="shared key in a field of that name",
        ),
        pytest.param([ORDERED, FAILED, request(0.4, status=201, attempt=2)], id="attempt of the runner"),
        pytest.param([request(status=500), request(0.4, status=201)], id="error of the upstream itself"),
        pytest.param(
            [lost(**GRAPHQL, request_body=QUERY), request(0.4, **GRAPHQL, request_body=QUERY)],
            id="GraphQL query",
        ),
        pytest.param(
            [lost(link="crm", target="/oauth/token"), request(0.4, link="crm", target="/oauth/token")],
            id="token endpoint",
        ),
        pytest.param(
            [lost(link="crm", target="/v1/traces"), request(0.4, link="crm", target="/v1/traces")],
            id="telemetry",
        ),
        pytest.param(
            [lost(link="crm", request_body=rpc), request(0.4, link="crm", request_body=rpc)]
            if (rpc := '{"jsonrpc": "2.0", "id": 1, "method": "orders.list"}')
            else [],
            id="JSON-RPC method that reads",
        ),
    ],
)
def test_repetitions_other_than_repeated_writes(events):
    assert write_repeated(*events) == []


def test_read_only_mcp_tool_is_not_write():
    look = {**CALL, "tool": "look"}
    repeated = [lost(0.1, **look), request(0.4, status=200, **look)]
    assert write_repeated(LISTED, *repeated, links=SERVER) == []
    assert len(write_repeated(*repeated, links=SERVER)) == 1


def test_link_without_declared_writes_has_none():
    silent = Links([Link("crm", "https://crm.example.net", writes_declared=True)])
    post = {"link": "crm", "target": "/notes"}
    assert write_repeated(lost(**post), request(0.4, **post), links=silent) == []
