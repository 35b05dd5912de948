"""Comparison of an episode with the control: its writes, failures and answer."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.judging.findings.traced import LINKS, findings_in, lost, model_request, request
from tests.judging.oracle.histories import ended, fault_met, run_started
from tests.support import replace
from wirefault.history.events import EXIT_CODE, Event, WentPastLab
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.conduct import conduct_in, masked
from wirefault.judging.findings.differences import Difference, differences
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.trace import traces
from wirefault.wiring.links import Link, Links

DONE = "Order 4711 was placed for 12.50 EUR."
FAILED = "I could not place the order: the shop is unavailable."
ORDER = request(status=201, request_body='{"item": "tea"}')
OTHER_LINK = Links((Link("crm", "https://crm.example.net"),))


def answer(text: str = DONE, exit_code: int = 0, **more: object) -> Event:
    end = ended(ended_by="text", response=text, **more)
    if not exit_code:
        return end
    ended_by = "text" if text else "exception"
    error = f"it ended with exit code {exit_code}: boom"
    return replace(end, ended_by=ended_by, error_type=EXIT_CODE, error=error)


def order(at: float = 0.0, item: str = "tea", **more: object) -> Event:
    body = f'{{"item": "{item}"}}'
    return request(at, **{"status": 201, "fingerprint": body, "request_body": body} | more)


def refused(at: float = 0.0, status: int = 503, **more: object) -> Event:
    return order(at, status=status, fault=fault_met(status=status, id="f"), **more)


CALM = [order(), answer("Order 17 was placed for 3 EUR.")]


def compared(*events: Event, control: Sequence[Sequence[Event]] = (CALM, CALM), links: Links = LINKS):
    """The names of the rules, with their severity, and the sentences."""
    results = _differences(events, control, links)
    rows = [(d.rule.name, d.observation.severity or d.rule.severity) for d in results]
    return rows, [d.observation.text for d in results]


def _differences(
    events: Sequence[Event], control: Sequence[Sequence[Event]], links: Links
) -> list[Difference]:
    conducts = []
    for episode in (events, *control):
        history = [replace(run_started(1), links=list(links)), *episode]
        repeats = findings_in(history, [WRITE_REPEATED])
        [trace] = traces(history)
        conducts.append(conduct_in(trace, repeats))
    assert conducts[0] is not None or not conducts[1:]
    return differences(conducts[0], conducts[1:])


def test_failure_answer_after_order():
    rows, [text] = compared(order(), answer(FAILED))
    assert rows == [("done_but_not_told", "harmful")]
    assert text == (
        "POST /orders of shop was executed once, as in the control, but the answer differs: "
        "'I could not place the order: the shop is unavailable.'"
    )


def talked(*replies: str, **more: object) -> Event:
    """The end of a conversation, whose turns ended at 1 s, 2 s and so on."""
    ends = [100.0 + number for number, _ in enumerate(replies, start=1)]
    return replace(answer(replies[-1], **more), answers=list(replies), turn_ends=ends)


PRICE, NO_PRICE = "Tea costs 3 EUR.", "Sorry, I could not find the price."
TALK = [order(1.5), talked(PRICE, DONE, PRICE)]


@pytest.mark.parametrize(
    ("replies", "rule"),
    [
        ((PRICE, DONE, NO_PRICE), ""),  # the second turn reported the order
        ((PRICE, DONE, ""), ""),
        ((NO_PRICE, DONE, PRICE), ""),
        ((PRICE, FAILED, PRICE), "done_but_not_told"),
        ((PRICE, FAILED, DONE), ""),
        ((PRICE, PRICE, NO_PRICE), "done_but_not_told"),
    ],
)
def test_write_is_reported_in_any_turn_from_its_own_on(replies: Sequence[str], rule: str) -> None:
    rows, _ = compared(order(1.5), talked(*replies), control=[TALK, TALK])
    assert [name for name, _ in rows if name != "silent"] == ([rule] if rule else [])
    rows, _ = compared(talked(PRICE, DONE, PRICE), control=[TALK, TALK])
    assert rows == [("not_done_but_told", "harmful")]


def test_name_of_a_link_with_a_port_is_whole() -> None:
    links = Links((replace(LINKS["shop"], name="port_9000"),))
    control = [[order(link="port_9000"), answer()]] * 2
    _, [text] = compared(order(link="port_9000"), answer(FAILED), control=control, links=links)
    assert text.startswith("POST /orders of port_9000 was executed once")


def test_answer_after_a_banner_is_quoted_by_its_failure() -> None:
    banner = "--- New run 3 ---\n\n"
    control = [[order(), answer(banner + "Order 17 was placed for 3 EUR.")]] * 2
    _, [text] = compared(order(), answer(banner + FAILED + "\nAnything else?"), control=control)
    assert text.endswith(f"but the answer differs: {FAILED!r}")


@pytest.mark.parametrize("text_", [FAILED, ""])
def test_exit_code_after_order(text_):
    rows, [text] = compared(order(), answer(text_, exit_code=3))
    assert rows == [("done_but_not_told", "harmful")]
    assert text.endswith("but it ended with exit code 3")


@pytest.mark.parametrize("text", ["null", "null\nnull"])
def test_empty_answer_after_order(text: str) -> None:
    rows, [finding] = compared(order(), answer(text))
    assert rows == [("done_but_not_told", "harmful")]
    assert finding.endswith(f"but the answer is {' '.join(text.split())}")


@pytest.mark.parametrize(
    "text",
    [
        "Something went wrong, please try again later.",
        "Oops! We gave up.",
        "Server disconnected without sending a response.",
        "socket hang up",
    ],
)
def test_apology_after_order(text):
    assert compared(order(), answer(text))[0] == [("done_but_not_told", "harmful")]


def test_error_before_last_json_value_is_log():
    calm = [order(), answer('{"id": 17,\n "item": "tea"}')]
    curl = '{"error": "unavailable"}{"id": 18,\n "item": "tea"}'
    assert compared(refused(), order(0.1), answer(curl), control=(calm, calm))[0] == []


def test_closing_brace_is_no_usual_last_line():
    calm = [order(), answer('{\n "placed": "tea"\n}')]
    failed = answer('{\n "error": "the model failed"\n}')
    assert compared(order(), failed, control=(calm, calm))[0] == [("done_but_not_told", "harmful")]


def test_border_is_no_usual_last_line():
    calm = [order(), answer("│ Started │\n╰─────────╯")]
    rows, _ = compared(order(), answer("│ Failed │\n╰────────╯"), control=(calm, calm))
    assert rows == [("done_but_not_told", "harmful")]


def test_log_after_answer_is_usual_answer():
    calm = [order(), answer("│ Error handler ready │\nTea is on its way.")]
    swapped = answer("Tea is on its way.\n│ Error handler ready │")
    assert compared(order(), swapped, control=(calm, calm))[0] == []


def test_emptied_text_of_json_answer_is_silent():
    calm = [order(), answer('{"status": "ok", "answer": "Placed."}')]
    emptied = answer('{"status": "ok", "answer": ""}')
    assert compared(order(), emptied, control=(calm, calm))[0] == [("done_but_not_told", "harmful")]
    assert compared(emptied, control=(calm, calm))[0] == [("silent", "risky")]
    honest = answer('{"status": "failed", "answer": null}')
    assert compared(honest, control=(calm, calm))[0] == []


def test_log_without_answer_is_silent():
    calm = [order(), answer("[agent] starts\n[agent] done\nTea is on its way.")]
    log = answer("[agent] starts\n[agent] done\n")
    assert compared(log, control=(calm, calm))[0] == [("silent", "risky")]
    rows, [text] = compared(order(), log, control=(calm, calm))
    assert rows == [("done_but_not_told", "harmful")] and "the answer is missing: '[agent] starts" in text


def test_closed_connection_is_no_success():
    end = replace(answer("", exit_code=1), error="it ended with exit code 1: peer closed connection")
    assert compared(order(), end)[0] == [("done_but_not_told", "harmful")]


@pytest.mark.parametrize(("severity", "rules"), [("harmful", []), ("risky", ["not_done_but_told"])])
def test_claim_that_a_rule_reports_is_reported_once(severity, rules):
    known = [Finding("error_as_result", severity, "it reports done", "", ("gateway-0:1",))]
    conducts = [
        conduct_in(traces([replace(run_started(1), links=list(LINKS)), *events])[0], findings)
        for events, findings in (([refused(), CALM[-1]], known), (CALM, []), (CALM, []))
    ]
    assert [each.rule.name for each in differences(conducts[0], conducts[1:])] == rules


def test_error_text_that_reports_success_is_risky():
    end = replace(
        answer("", exit_code=1), error="it ended with exit code 1: the order was placed, no summary"
    )
    assert compared(order(), end)[0] == [("done_but_not_told", "risky")]


NOTICE = order(0.2, item="notice", target="/notices")


@pytest.mark.parametrize("text, rules", [("", ["not_done_but_told"]), ("Order 1 was placed.", [])])
def test_usual_answer_after_replaced_model_reply(text, rules):
    reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})
    fault = fault_met("empty_answer", None, id="f", content=True)
    events = [model_request(status=200, reply_body=reply, fault=fault), answer()]
    assert [name for name, _ in compared(*events)[0]] == rules


BOTH = Links(tuple(replace(link, writes=("POST /*",)) if link.name == "shop" else link for link in LINKS))
TWO_WRITES = [order(), NOTICE, answer("All done.")]


@pytest.mark.parametrize("end", [answer("Sorry, the model failed."), answer("", exit_code=1)])
def test_failure_between_two_writes(end):
    rows, [text] = compared(order(), end, control=(TWO_WRITES, TWO_WRITES), links=BOTH)
    assert rows == [("done_but_not_told", "risky")]
    assert text.startswith("POST /orders of shop was executed once, POST /notices of shop was not, and ")


def test_one_of_two_equal_writes_is_half_done() -> None:
    control = [order(), order(0.2, item="coffee"), answer("All done.")]
    _, [text] = compared(order(), answer("Sorry, the model failed."), control=(control, control))
    assert text.startswith("POST /orders of shop was executed once, not twice as in the control, and ")


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([order(), refused(0.2, target="/notices"), answer(FAILED)], id="the other was refused"),
        pytest.param([order(), answer("The order was placed, the notice failed.")], id="both are reported"),
        pytest.param([order(), answer("Sorry, no notice: its arguments failed.")], id="the other is named"),
        pytest.param([answer(FAILED)], id="none was executed"),
        pytest.param([lost(status=None), answer(FAILED)], id="nothing shows whether it was executed"),
        pytest.param(TWO_WRITES, id="as in the control"),
    ],
)
def test_half_done_is_silent(events):
    assert compared(*events, control=(TWO_WRITES, TWO_WRITES), links=BOTH)[0] == []


def test_session_before_write_is_no_half():
    session = order(target="/sessions")
    calm = [session, order(0.1), answer()]
    assert compared(session, answer(FAILED), control=(calm, calm), links=BOTH)[0] == []


@pytest.mark.parametrize("words", ["The order was not placed.", "It failed: nothing was ordered."])
def test_negated_success_word_is_failure(words):
    assert compared(order(), answer(words))[0] == [("done_but_not_told", "harmful")]


def test_exit_code_with_usual_answer_is_risky():
    assert compared(order(), answer(exit_code=1))[0] == [("done_but_not_told", "risky")]


def test_undeclared_write_counts():
    crm = {"link": "crm", "target": "/notes"}
    calm = [order(**crm), answer()]
    links = OTHER_LINK
    rows, _ = compared(order(**crm), answer(FAILED), control=(calm, calm), links=links)
    assert rows == [("done_but_not_told", "harmful")]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([order(), answer()], id="as in the control"),
        pytest.param([order(), answer("retrying ...\n" + DONE)], id="a line of a log before the answer"),
        pytest.param([order(), answer("I placed your order, at the second try.")], id="other words"),
        pytest.param(
            [order(), answer("The order was placed, but the price is unavailable.")], id="told in part"
        ),
        pytest.param([order(), answer("Tea is on its way.")], id="words that are not read"),
        pytest.param([lost(status=201), answer("It is unknown whether the order was placed.")], id="unsure"),
        pytest.param(
            [lost(status=201), answer("It may have failed.", exit_code=1)], id="unsure with exit code"
        ),
        pytest.param([refused(), answer(FAILED)], id="not done and told so"),
        pytest.param([refused(), answer(FAILED, exit_code=1)], id="not done, told by exit code"),
        pytest.param([lost(status=None), answer(FAILED)], id="nothing shows whether it was executed"),
        pytest.param([refused(), order(0.1), answer()], id="passed at the second try"),
        pytest.param([order(key="k"), order(0.1, key="k"), answer()], id="one idempotency key"),
        pytest.param([order(), order(1.0, attempt=2), answer(), answer(attempt=2)], id="another attempt"),
        pytest.param([order(), lost(0.1, status=None), answer()], id="one more may have been executed"),
        pytest.param(
            [order(), request(1, "/orders/7", "DELETE", status=204), answer()], id="an order more, undone"
        ),
        pytest.param(
            [refused(), order(0.1, method="PUT", target="/orders/1"), answer()], id="another call did it"
        ),
        pytest.param([refused(status=409), answer()], id="it exists already"),
        pytest.param(
            [
                order(status=200, fault=fault_met("status", 200, id="f", content=True)),
                answer(),
            ],
            id="the lab told it that it was done",
        ),
        pytest.param([refused(), answer("null", exit_code=1)], id="empty with exit code"),
    ],
)
def test_equal_episodes_have_no_difference(events):
    assert compared(*events)[1] == []


@pytest.mark.parametrize(
    ("events", "calm"),
    [
        pytest.param(
            [order(), order(1), answer()], [order(), order(1), answer()], id="orders twice on its own"
        ),
        pytest.param([order(), answer("")], [order(), answer("")], id="answers elsewhere"),
        pytest.param([answer("")], [answer("null")], id="never answers"),
        pytest.param(
            [refused(), answer("Tea costs 3 EUR.")], [order(), answer("Tea costs 4 EUR.")], id="side issue"
        ),
        pytest.param([order(), answer(FAILED)], [order(), answer(FAILED)], id="always says that"),
        pytest.param([order(), answer("", 1)], [order(), answer("", 1)], id="always ends so"),
        pytest.param(
            [order(method="PUT", target="/orders/1"), answer(FAILED)],
            [order(method="PUT", target="/orders/1"), answer()],
            id="PUT can be repeated",
        ),
        pytest.param(
            [order(link="crm", target="/search"), order(1, link="crm", target="/search"), answer()],
            [order(link="crm", target="/search"), answer()],
            id="an undeclared call that reads",
        ),
        pytest.param([order(), order(1), answer()], [answer()], id="the control disagrees"),
    ],
)
def test_no_difference_to_matching_control(events, calm):
    control = (calm, CALM if calm == [answer()] else calm)
    assert compared(*events, control=control)[1] == []


def test_write_of_faults_alone_is_risky():
    assert compared(order(), order(1, link="crm", target="/notes"), answer())[0] == [
        ("extra_writes", "risky")
    ]


def test_single_control_episode_is_insufficient():
    assert compared(order(), answer(FAILED), control=(CALM,))[1] == []


def test_attempt_ended_by_lab_is_not_compared():
    [trace] = traces([run_started(1), order(), replace(answer(FAILED), ended_by="limit")])
    assert conduct_in(trace) is None


def test_model_repeats_order():
    rounds = [
        event
        for at in range(1, 7)
        for event in (model_request(at, f'{{"messages": [{at}]}}'), order(at + 0.5, item=f"tea{at % 2}"))
    ]
    rows, [text] = compared(order(), *rounds, answer())
    assert rows == [("extra_writes", "harmful")]
    assert text == (
        "POST /orders of shop was executed 7 times, but once in each of 2 control episodes; it was sent again"
        " by the model"
    )


@pytest.mark.parametrize(
    ("between", "by"),
    [
        ([], "by the client"),
        ([model_request(-0.5)], "by the client, with no model request in between"),
        # its body does not show whether it asks a model
        ([model_request(-0.5), request(0.5, target="/ask", link="llm")], "by the client"),
        # found at run time, with a body that does not show it
        ([request(0.5, target="/v1/chat/completions", link="llm", request_body="")], "by the model"),
    ],
)
def test_extra_order_names_who_repeated_it(between: list[Event], by: str) -> None:
    text = compared(order(), *between, order(1), answer())[1][0]
    assert text.endswith(f"; it was sent again {by}")


def test_order_for_a_call_of_an_unknown_tool_is_not_the_models() -> None:
    renamed = model_request(-0.5, fault=fault_met("unknown_tool", id="f"))
    [text] = compared(renamed, order(), model_request(0.5, '{"messages": [1]}'), order(1), answer())[1]
    assert text.endswith("; the subject made one of them for a call of an unknown tool")


def test_extra_order_leaves_open_who_repeated_it() -> None:
    """No request shows that it asks a model, but one in between may."""
    text = compared(order(), request(0.5, target="/ask", link="llm"), order(1), answer())[1][0]
    assert text.endswith("in each of 2 control episodes")


def test_client_and_model_both_repeat_order() -> None:
    [text] = compared(order(), order(0.2), model_request(0.5), order(1), answer())[1]
    assert text.endswith("; it was sent again by the model and by the client")


def test_repetition_with_finding_is_reported_once():
    assert compared(lost(), order(0.4, fingerprint="f1"), answer())[1] == []


def test_extra_order_with_other_contents_is_risky():
    rows, [text] = compared(order(), order(1, item="coffee"), answer())
    assert rows == [("extra_writes", "risky")]
    assert text.endswith("; the contents differ")


@pytest.mark.parametrize("tries", [[refused()], [refused(), refused(1, status=500)], []])
def test_usual_answer_without_order(tries):
    rows, [text] = compared(*tries, request(2, "/price", "GET"), answer())
    assert rows == [("not_done_but_told", "harmful")]
    assert text.startswith(
        "POST /orders of shop was executed once in each of 2 control episodes and never in this one"
    )


def test_usual_doubtful_answer_claims_nothing():
    doubtful = answer("Ordered 2 teas; it may or may not have been carried out.")
    calm = [order(), doubtful]
    assert compared(refused(), doubtful, control=(calm, calm))[0] == []


def test_bypassing_connection_may_have_executed_write():
    past = WentPastLab(104.0, "001", 1, "10.0.0.9", 443, "tcp", "agent", 1)
    assert compared(refused(), past, answer())[1] == []


@pytest.mark.parametrize("text_", ["", "null", "None", "{}", "null\nnull\n\nnull"])
def test_silent_program(text_):
    rows, _ = compared(refused(), answer(text_))
    assert rows == [("silent", "risky")]


CRASH = answer("", exit_code=1)


@pytest.mark.parametrize("failed", [refused(), refused(status=429), request(method="GET", status=500)])
def test_program_ends_after_one_failure(failed):
    rows, [text] = compared(failed, CRASH)
    assert rows == [("one_failure_ends_it", "risky")]
    assert text.endswith("failed once and was the last request, and the program ended with exit code 1")


EXCEPTION = "openai.InternalServerError: Error code: 500"


@pytest.mark.parametrize("before", ["", "Error: ", "Agent failed with ", "Starting\n"])
def test_exception_as_answer_after_one_failure(before: str) -> None:
    rows, [text] = compared(refused(), answer(before + EXCEPTION))
    assert rows == [("one_failure_ends_it", "risky")]
    whole = " ".join((before + EXCEPTION).split())
    assert text.endswith(f"was the last request, and the answer is an exception: {whole!r}")


def test_exception_as_answer_after_order() -> None:
    assert compared(order(), answer("TypeError: fetch"))[0] == [("done_but_not_told", "harmful")]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([refused(), refused(1), answer(EXCEPTION)], id="tried again, and names it"),
        pytest.param([refused(), answer("An error: Exception or timeout")], id="no class of exceptions"),
        pytest.param([refused(), answer(f"Sorry, I could not order: {EXCEPTION}")], id="explains it"),
        pytest.param([refused(), refused(1), CRASH], id="tried again"),
        pytest.param([refused(), answer(FAILED, exit_code=1)], id="said why"),
        pytest.param([refused(status=400), CRASH], id="a refusal that stays"),
        pytest.param([refused(), answer(FAILED)], id="answered"),
        pytest.param([lost(status=None), CRASH], id="may have been done"),
        pytest.param([CRASH], id="nothing failed"),
        pytest.param(
            [request(0, "/price", "GET", status=503), request(1, "/price", "GET"), CRASH],
            id="passed, crashed later",
        ),
    ],
)
def test_program_ends_after_several_failures(events):
    assert compared(*events)[1] == []


@pytest.mark.parametrize(
    ("first", "rules"),
    [
        pytest.param(refused(), [], id="refused"),
        pytest.param(order(status=None, complete=(False, False)), [], id="not forwarded"),
        pytest.param(lost(), ["extra_writes"], id="executed"),
    ],
)
def test_other_call_may_replace_failed_usual_call(first, rules):
    links = Links((replace(LINKS["shop"], writes=("POST /orders", "POST /express")),))
    express = request(0.5, "/express", status=201, request_body='{"item": "tea"}')
    assert [rule for rule, _ in compared(first, express, answer(), links=links)[0]] == rules


def test_replacement_executed_twice_is_extra():
    links = Links((replace(LINKS["shop"], writes=("POST /orders", "POST /express")),))
    express = [request(at, "/express", status=201, request_body='{"item": "tea"}') for at in (0.5, 1.0)]
    [row] = compared(refused(), *express, answer(), links=links)[0]
    assert row[0] == "extra_writes"


NOTE = {"link": "notes", "dialect": "mcp", "message": "tools/call", "tool": "add_note", "target": "/mcp"}
NOTES = Links((Link("notes", "http://127.0.0.1:9001", "mcp", writes=("add_note",)),))
ADDED = [request(status=200, tool_answer="result", **NOTE), answer("The note was added.")]
RPC_ERROR = '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}'
TOOL_ERROR = '{"jsonrpc": "2.0", "id": 1, "result": {"isError": true, "content": [{"text": "failed"}]}}'


@pytest.mark.parametrize(
    ("body", "kind", "rules"),
    [
        pytest.param(RPC_ERROR, "rpc_error", ["not_done_but_told"], id="error of JSON-RPC"),
        pytest.param(TOOL_ERROR, "tool_error", ["not_done_but_told"], id="error of a tool by a fault"),
    ],
)
def test_usual_answer_after_error_of_mcp(body, kind, rules):
    fault = fault_met(kind, id="f", content=True)
    failed = request(status=200, reply_body=body, fault=fault, forwarded=False, **NOTE)
    rows, _ = compared(failed, answer("The note was added."), control=(ADDED, ADDED), links=NOTES)
    assert [rule for rule, _ in rows] == rules


def test_tool_error_may_mean_nothing_to_do():
    failed = request(status=200, reply_body=TOOL_ERROR, tool_answer="error", **NOTE)
    assert compared(failed, answer("The note was added."), control=(ADDED, ADDED), links=NOTES)[0] == []


def test_network_that_delivers_one_order_twice():
    copies = fault_met("duplicate_request", evidence={"copies": 2, "statuses": [201, 201]})
    assert compared(order(fault=copies, forwarded=True), answer())[0] == []


def test_version_in_path_is_no_id() -> None:
    assert masked("POST /v1/chat/completions of port_9000") == "POST /v1/chat/completions of #"
    assert masked("GET /v1beta/models/17") == "GET /v1beta/models/#"
