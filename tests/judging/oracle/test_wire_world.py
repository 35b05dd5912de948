"""Writes in the gateway's record: the fate of each, compared with the request."""

import json

import pytest

from tests.judging.oracle.histories import exchange, fault_met
from tests.support import replace
from wirefault.dialects.fate import fate_of
from wirefault.history.events import WentPastLab
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.wire_world import judge_requests, world_writes
from wirefault.judging.requests import Request
from wirefault.wiring.links import Link, Links

TEA = {"link": "shop", "method": "POST", "path": "/orders", "json": {"item": "tea"}}
LINKS = Links([Link("shop", writes=("POST /orders", "DELETE /orders/*")), Link("news")])


def write(status=201, body='{"item": "tea", "n": 1}', start=103.0, **more):
    known = {"method": "POST", "target": "/orders", "write": True, "forwarded": True, "request_body": body}
    return exchange("shop", status=status, **known | {"start": start} | more)


def judged(*writes, expected=(TEA,), settled=True, past_lab=(), **more):
    requests = [Request(("gateway-0:1",), each, None) for each in writes]
    return judge_requests(parse_expect({"requests": list(expected), **more}), requests, settled, past_lab)


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (200, "executed"),
        (303, "executed"),
        (307, "refused"),
        (308, "refused"),
        (404, "refused"),
        (500, "maybe"),
        (None, "maybe"),
    ],
)
def test_fate_by_upstream_answer(status, fate):
    assert fate_of(status) == fate


def test_upstream_status_counts_not_clients():
    assert [w.fate for w in world_writes([write(503, upstream_status=201)])] == ["executed"]
    assert [w.fate for w in world_writes([write(None, upstream_status=422)])] == ["refused"]


def test_incomplete_request_is_not_write():
    assert world_writes([write(503, forwarded=False)]) == []


def test_each_delivery_counts():
    def repeated(*statuses):
        copies = fault_met("duplicate_request", evidence={"copies": 2, "statuses": list(statuses)})
        return write(fault=copies, forwarded=True)

    assert [w.fate for w in world_writes([repeated(201, 201)])] == ["executed", "executed"]
    assert [w.fate for w in world_writes([repeated(201)])] == ["executed", "maybe"]


ELSEWHERE = WentPastLab(104.0, "001", 1, "10.0.0.9", 443, "tcp", "the subject", 1)
UNREAD = replace(ELSEWHERE, link="shop", only_http2=True, sent=9, received=9)
AGAIN = write(start=104.0)


@pytest.mark.parametrize(
    ("writes", "past", "axis"),
    [
        ([], ELSEWHERE, "unknown"),  # it may have been sent there
        ([write()], ELSEWHERE, "as_asked"),
        ([], UNREAD, "unknown"),
        ([write()], UNREAD, "unknown"),  # it may have been sent again
        ([write()], replace(UNREAD, link="news"), "as_asked"),
        ([write(), AGAIN], UNREAD, "duplicated"),
    ],
)
def test_unread_connections_may_have_carried_writes(writes, past, axis):
    world = judged(*writes, past_lab=[past])
    assert world.axis == axis
    assert axis != "unknown" or past.text in world.why


SEVENTH = {"target": "/orders/7"}


@pytest.mark.parametrize("more", [{"key": "k"}, {"method": "PUT"} | SEVENTH, {"method": "DELETE"} | SEVENTH])
def test_shared_key_and_idempotent_methods_count_once(more):
    assert len(world_writes([write(start=1.0, **more), write(None, start=2.0, **more)])) == 1
    assert world_writes([write(None, start=1.0, **more), write(start=2.0, **more)])[0].fate == "executed"
    other = more | {"target": "/orders/8"}
    assert len(world_writes([write(start=1.0, **more), write(start=2.0, **other)])) == 2


@pytest.mark.parametrize(
    ("writes", "axis"),
    [
        ([write()], "as_asked"),
        ([write(), write()], "duplicated"),
        ([write(), write(), write(500)], "duplicated"),
        ([write(500)], "unknown"),
        ([write(), write(None)], "unknown"),
        ([], "lost"),
        ([write(422)], "lost"),
        ([write(422), write()], "as_asked"),
        ([write(body='{"item": "coffee"}')], "wrong"),
        ([write(), write(body='{"item": "coffee"}')], "extra"),
        ([write(), write(method="DELETE", target="/orders/1")], "extra"),
        ([write(body=None)], "unknown"),
        ([write(request_cut=True)], "unknown"),
    ],
)
def test_world_axis_of_writes(writes, axis):
    assert judged(*writes).axis == axis


def test_no_requests_and_unsettled_requests():
    assert judged(expected=()).axis == "not_applicable"
    assert judged(write(), expected=()).axis == "extra"
    assert judged(write(), settled=False).axis == "unknown"


def test_other_writes_may_be_allowed():
    assert judged(write(), write(body="{}"), others="allowed").axis == "as_asked"
    assert judged(write(), write(500, body="{}"), others="allowed").axis == "as_asked"


def test_expected_number_of_times():
    assert judged(write(), write(), expected=[TEA | {"times": 2}]).axis == "as_asked"
    assert judged(write(), write(), write(), expected=[TEA | {"times": 2}]).why == (
        "POST /orders of shop executed 3 times, asked for 2 times"
    )


@pytest.mark.parametrize(
    ("expected", "fits"),
    [
        ({"item": "Tea"}, True),
        ({"n": 1}, True),
        ({"n": {"number": 1.2, "tolerance": 0.5}}, True),
        ({"to": {"street": {"contains": "Main"}}}, True),
        ({"to": {"equals": {"number": "7a"}}}, True),
        ({"tags": ["a", "b"]}, True),
        ({"tags": ["b"]}, False),
        ({"n": 2}, False),
        ({"missing": None}, False),
    ],
)
def test_body_is_matched_by_named_fields(expected, fits):
    body = '{"item": "tea", "n": 1, "to": {"street": "Main street", "number": "7a"}, "tags": ["a", "b"]}'
    assert judged(write(body=body), expected=[TEA | {"json": expected}]).axis == (
        "as_asked" if fits else "wrong"
    )


@pytest.mark.parametrize(
    ("expected", "body", "axis"),
    [
        ({"date": "2026-03-12", "time": "14:30"}, {"date": "2026-03-12", "time": "14:30"}, "as_asked"),
        ({"date": "2026-03-12", "time": "14:30"}, {"date": "2026-03-12", "time": "15:30"}, "wrong"),
        ({"date": "2026-03-12", "time": "14:30"}, {"date": "2026-03-12"}, "wrong"),
        (
            {"date": "tomorrow", "time": {"contains": "noon"}},
            {"date": "tomorrow", "time": "noon"},
            "as_asked",
        ),
        ({"date": "tomorrow"}, {"date": "tomorrow"}, "as_asked"),
        ({"time": "now"}, {"time": "later"}, "wrong"),
        ({"at": {"date": "2026-03-12", "time": "14:30"}}, {"at": "12 March 2026, 2:30 pm"}, "as_asked"),
        ({"at": {"date": "2026-03-12", "time": "14:30"}}, {"at": "12 March 2026, 4:30 pm"}, "wrong"),
        ([{"date": "2026-03-12", "time": "14:30"}], [{"date": "2026-03-12", "time": "14:30"}], "as_asked"),
    ],
)
def test_body_may_be_only_date_and_time(expected, body, axis):
    assert judged(write(body=json.dumps(body)), expected=[TEA | {"json": expected}]).axis == axis


def test_form_and_query_are_matched():
    assert judged(write(body="item=tea&n=1")).axis == "as_asked"
    delete = {"link": "shop", "method": "DELETE", "path": "/orders/*", "query": {"why": "late"}}
    gone = write(method="DELETE", target="/orders/7?why=late", body="")
    assert judged(gone, expected=[delete]).axis == "as_asked"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"link": "shpo"}, "expect.requests[0].link: unknown link 'shpo'; did you mean 'shop'?"),
        ({"link": "news"}, "expect.requests[0]: the link news declares no `writes` in the wiring"),
        ({"method": "PSOT"}, "method: shop declares no write by PSOT; did you mean 'POST'?"),
        ({"path": "/order"}, "shop does not declare POST /order as a write; did you mean 'POST /orders'?"),
        ({"jsn": {}}, "expect.requests[0].jsn: unknown key; did you mean 'json'?"),
        ({"json": {"n": {"number": "x"}}}, "expect.requests[0].json: number: must be a number"),
        ({"json": {"due": {"date": "12/13/2026 or so"}}}, "expect.requests[0].json: date: "),
        ({"times": 0}, "times"),
    ],
)
def test_undeclared_request_is_error(change, error):
    with pytest.raises(ValueError) as caught:
        parse_expect({"requests": [TEA | change]}, LINKS)
    assert error in str(caught.value)


def test_declared_star_covers_path():
    for path in ("/orders/7", "/orders/*"):
        parse_expect({"requests": [{"link": "shop", "method": "delete", "path": path}]}, LINKS)


TOOL = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "order"}
BY_ANSWER = [("result", "executed"), ("error", "refused"), ("", "maybe")]


@pytest.mark.parametrize(("answer", "fate"), BY_ANSWER)
def test_mcp_tool_answer_decides_fate(answer, fate):
    assert [w.fate for w in world_writes([write(200, tool_answer=answer, **TOOL)])] == [fate]


@pytest.mark.parametrize(("status", "fate"), [(404, "refused"), (500, "maybe"), (None, "maybe")])
def test_error_status_decides_fate_of_mcp_tool(status, fate):
    assert [w.fate for w in world_writes([write(status, tool_answer="error", **TOOL)])] == [fate]


def test_each_delivery_of_tool_call_has_its_fate():
    def repeated(*statuses, last="result"):
        evidence = {"copies": 3, "statuses": list(statuses), "tool_answers": ["error", "result"]}
        return write(
            fault=fault_met("duplicate_request", evidence=evidence), forwarded=True, tool_answer=last, **TOOL
        )

    assert [w.fate for w in world_writes([repeated(200, 200, 200)])] == ["refused", "executed", "executed"]
    assert [w.fate for w in world_writes([repeated(200, 200, last="")])] == ["refused", "executed", "maybe"]


def test_refused_tool_call_is_named():
    order = {"link": "shop", "method": "POST", "path": "/mcp"}
    verdict = judged(write(200, tool_answer="error", **TOOL), expected=(order,))
    assert verdict.axis == "lost" and "(refused: order of shop with an error of the tool)" in verdict.why


FILES = Links(
    [Link("files", "http://127.0.0.1:9/mcp", "mcp", writes=("write_*",)), Link("shop", writes=("POST /a",))]
)
NOTES = {"link": "files", "tool": "write_file", "json": {"path": "notes.txt"}}


def called(tool="write_file", answer="result", **arguments):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    call = {"tool": tool, "message": "tools/call", "dialect": "mcp", "target": "/mcp", "tool_answer": answer}
    return replace(write(200, body=json.dumps(body), **call), link="files")


@pytest.mark.parametrize(
    ("calls", "axis"),
    [
        ([called(path="notes.txt")], "as_asked"),
        ([called(path="other.txt")], "wrong"),
        ([called(path="notes.txt", answer="error")], "lost"),
        ([called(path="notes.txt"), called("write_log")], "extra"),
        ([called(path="notes.txt")] * 2, "duplicated"),
    ],
)
def test_mcp_tool_is_matched_by_name_and_arguments(calls, axis):
    assert judged(*calls, expected=(NOTES,)).axis == axis


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (NOTES | {"tool": "read_file"}, "requests[0].tool: files does not declare read_file as a write"),
        (NOTES | {"method": "POST"}, "method, path and query cannot be combined with a tool"),
        ({"link": "files"}, "missing method and path, or a tool on an MCP link"),
        ({"link": "files", "method": "POST", "path": "/mcp"}, "the link files speaks MCP: name a tool"),
        ({"link": "shop", "tool": "a"}, "the link shop does not speak MCP: name method and path"),
    ],
)
def test_undeclared_tool_is_error(expected, error):
    with pytest.raises(ValueError) as caught:
        parse_expect({"requests": [expected]}, FILES)
    assert error in str(caught.value)


def test_two_tools_with_one_key_are_two_writes():
    assert len(world_writes([replace(called(tool), key="k") for tool in ("write_file", "write_log")])) == 2


@pytest.mark.parametrize(
    ("note", "axis"),
    [
        ("will be late", "as_asked"),
        ("will not be late", "wrong"),
        ("Is he late?", "unknown"),
        ("l�te", "unknown"),
    ],
)
def test_text_of_a_request_is_read_like_an_answer(note, axis):
    late = TEA | {"json": {"note": {"contains": "late"}}}
    assert judged(write(body=json.dumps({"note": note})), expected=[late]).axis == axis


def test_unreadable_requests_may_be_expected_requests():
    late = TEA | {"json": {"note": {"contains": "late"}}, "times": 2}
    unread = json.dumps({"note": "Is he late?"})
    assert judged(write(body=unread), write(body=unread, start=104.0), expected=[late]).axis == "unknown"
    assert judged(write(body=unread), expected=[late]).axis == "lost"


# a link that was found at run time declares no writes

FOUND_TEA = {**TEA, "link": "port_9000"}


def on_found_link(target="/orders", link="port_9000", method="POST", **more):
    return replace(write(target=target, method=method, write=False, **more), link=link)


@pytest.mark.parametrize(
    ("exchanges", "more", "axis"),
    [
        ([on_found_link()], {}, "as_asked"),
        ([on_found_link(), on_found_link("/orders/7", method="GET")], {}, "as_asked"),
        ([on_found_link(), on_found_link("/token")], {}, "as_asked"),
        ([on_found_link(), on_found_link(start=104.0)], {}, "duplicated"),
        ([on_found_link(body='{"item": "milk"}')], {}, "wrong"),
        ([on_found_link(status=404)], {}, "lost"),
        ([], {}, "lost"),
        ([on_found_link(), on_found_link("/search")], {}, "as_asked"),
        ([on_found_link(), on_found_link("/refunds")], {}, "extra"),
        ([on_found_link(), on_found_link("/refunds", link="port_9001")], {}, "as_asked"),
        ([on_found_link(), on_found_link("/refunds", status=404)], {}, "as_asked"),
        ([on_found_link(), on_found_link("/refunds")], {"others": "allowed"}, "as_asked"),
        ([on_found_link(link="port_9001")], {}, "unknown"),
        ([on_found_link("/other", link="port_9001")], {}, "lost"),
    ],
)
def test_oracle_itself_declares_its_calls_of_a_found_link(exchanges, more, axis):
    assert judged(*exchanges, expected=[FOUND_TEA], **more).axis == axis


def test_doubt_names_the_call():
    world = judged(on_found_link(link="port_9001"), expected=[FOUND_TEA])
    assert world.why == "POST /orders of port_9001 came, and none to port_9000"
