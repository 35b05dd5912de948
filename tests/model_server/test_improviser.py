"""The improviser: a call of a tool that it has never seen, from the schema alone, or an honest no."""

import json

import pytest

from bench.asgi_server import serve
from tests.model_server.conversations import DECIDE, answer_to, converse, tool
from tests.model_server.exchange import post
from wirefault.model_server.server import create_app

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PRIORITY = {"type": "string", "enum": ["low", "high"]}
TOOLS = [
    tool("get_ticket", "Get a ticket by its number.", ticket_id=NUMBER),
    tool("close-ticket", "Close a ticket.", ticket_id=NUMBER),
    tool("tickets.create", "Create a ticket.", ["title"], title=TEXT, priority=PRIORITY),
    tool("searchDocs", "Search the documentation.", ["query"], query=TEXT, limit=NUMBER),
    tool("list_messages", "List messages.", ["unread"], unread={"type": "boolean"}),
    tool("sendMail", "Send an email.", to={"type": "string", "format": "email"}, body=TEXT),
    tool("refund_order", "Refund an order.", order_id=TEXT),
    tool("book_room", "Book a meeting room.", room=TEXT, date={"type": "string", "format": "date"}),
]


def call(prompt):
    calls = converse(prompt, [{"id": 1}], tools=TOOLS)[0]
    return calls[0] if calls else None


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Show me ticket 4711", ("get_ticket", {"ticket_id": 4711})),
        ("Please close ticket #4711.", ("close-ticket", {"ticket_id": 4711})),
        ("\nCurrent Task: Show me ticket 4711", ("get_ticket", {"ticket_id": 4711})),
        (
            'Create a high priority ticket titled "Printer on fire"',
            ("tickets.create", {"title": "Printer on fire", "priority": "high"}),
        ),
        ("Search the docs for retry budgets", ("searchDocs", {"query": "retry budgets"})),
        (
            'Send an email to ann@example.com saying "the build is green"',
            ("sendMail", {"to": "ann@example.com", "body": "the build is green"}),
        ),
        ("Refund order 4711", ("refund_order", {"order_id": "4711"})),
        ('Refund order "A 17/b"', ("refund_order", {"order_id": "A 17/b"})),
        ("Refund the order with the id 'blue heron'", ("refund_order", {"order_id": "blue heron"})),
        ("Book room Aurora on 12 March 2026", ("book_room", {"room": "Aurora", "date": "2026-03-12"})),
    ],
)
def test_fully_explained_prompt_makes_call(prompt, expected):
    assert call(prompt) == expected


@pytest.mark.parametrize(
    "prompt",
    [
        "Close ticket 4711 if it is old",
        "Don't close ticket 4711",
        "Search the docs for what I can't see",
        "Close tickets 4711 and 4712",
        "Close ticket 4711 and tell Bob",
        "Close the ticket",
        "Reopen ticket 4711",
        "How do I close ticket 4711?",
        "Which ticket is the oldest?",
        "Show me my unread messages",
        "Book room Aurora",
        "Delete ticket 4711",
        "Close ticket 4711 with 3 hours",
        "Refund order 4711 and order 4712",
        'Refund order "A 17/b" for 3 people',
    ],
)
def test_unexplained_words_are_declined_without_calls(prompt):
    assert call(prompt) is None
    answer = answer_to(prompt, [], tools=TOOLS)
    assert answer.status == "failed"
    assert "docs/scripted-model.md" in answer.text


def test_ambiguous_tools_are_declined():
    twins = [tool("find_a", "Find a thing.", query=TEXT), tool("find_b", "Find a thing.", query=TEXT)]
    assert converse("Find the thing Aurora", ["x"], tools=twins)[0] == []


def test_single_value_of_result_is_reported():
    prompt = "What is the ticket 4711?"
    assert answer_to(prompt, [{"title": "Fire"}], tools=TOOLS).values[0].value == "Fire"
    assert answer_to(prompt, [{"id": 4711, "title": "Fire"}], tools=TOOLS).values == ()


@pytest.mark.parametrize("named", [True, False], ids=["named", "none"])
@pytest.mark.parametrize(
    ("result", "status"), [({"title": "Fire"}, "done"), ({"isError": True}, "failed"), (None, "failed")]
)
def test_form_uses_results_of_withheld_tool(named, result, status):
    form = tool("final_answer", "Ends the task.", status={"type": "string", "enum": ["done", "failed"]})
    schema = {"name": "form", "schema": form["function"]["parameters"]}
    none = {"tool_choice": "none", "response_format": {"type": "json_schema", "json_schema": schema}}
    made = {"id": "1", "type": "function", "function": {"name": "get_ticket", "arguments": '{"id": 4711}'}}
    turn = [
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "1", "content": json.dumps(result)},
    ]
    messages = [{"role": "user", "content": "Show me ticket 4711"}, *(turn if result else [])]
    body = {"model": "mine", "messages": messages, "tools": [tool("get_ticket", id=NUMBER), form]}
    with serve(create_app(DECIDE)) as url:
        reply = post(url, {**body, **({"tool_choice": form} if named else none)}).json()
    message = reply["choices"][0]["message"]
    filled = message["tool_calls"][0]["function"]["arguments"] if named else message["content"]
    assert json.loads(filled) == {"status": status}


def test_error_of_unknown_tool_is_never_success():
    for error in ("Permission denied", '{"isError": true}', "close-ticket is not a valid tool", ""):
        assert answer_to("Close ticket 4711", [error] * 2, tools=TOOLS).status != "done"


def test_read_with_unexplained_words_is_not_made():
    recipes = [tool("recipe-get", "Get a recipe.", id=NUMBER)]
    assert converse("Show me recipe 733", [{"title": "Chili"}], tools=recipes)[0]
    assert converse("Show me the smoky vegan chili, recipe 733", [{}], tools=recipes)[0] == []
