"""``decide``: replies of other kinds, and its properties."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model_server.conversations import LAB, converse, report_of, request_of
from tests.model_server.score_blind import REPORT
from windtunnel.model_server.decide import decide
from windtunnel.model_server.lexicon import wordlist
from windtunnel.model_server.personas import Persona

PARIS_ROME = "What's the weather in Paris and in Rome?"


def first(prompt, **more):
    return decide(request_of(prompt, **more), Persona.DILIGENT, 0)


def test_independent_reads_share_one_reply():
    assert [call.arguments["city"] for call in first(PARIS_ROME).tool_calls] == ["Paris", "Rome"]


def test_parallel_tool_calls_false_gives_one_call_at_a_time():
    weather = {"main": {"temp": 1}}
    made, last = converse(PARIS_ROME, [weather, weather], parallel_tool_calls=False)
    assert [arguments["city"] for _, arguments in made] == ["Paris", "Rome"]
    assert len(first(PARIS_ROME, parallel_tool_calls=False).tool_calls) == 1
    assert len(report_of(last)["values"]) == 2


def test_tool_choice_none_gives_text():
    decision = first(PARIS_ROME, tool_choice="none")
    assert decision.tool_calls == ()
    assert decision.text


def test_without_a_report_tool_the_answer_is_text_with_the_values():
    _, last = converse("What is 6 times 7?", [{"result": 42}], tools=LAB)
    assert last.tool_calls == ()
    assert "42" in last.text


def test_a_pure_action_reports_no_values():
    _, last = converse("Send a message to Bob saying 'hi'", [{"id": 1, "status": "sent"}])
    assert report_of(last) == {"status": "done", "answer": report_of(last)["answer"], "values": []}


def test_the_date_comes_from_the_system_message():
    request = request_of("What do I have on my calendar tomorrow?")
    request["messages"][0]["content"] = "Be brief. Today is 2027-12-31."
    assert decide(request, Persona.DILIGENT, 0).tool_calls[0].arguments == {"date": "2028-01-01"}


def test_a_follow_up_takes_what_it_leaves_out_from_the_question_before():
    request = request_of("What's the weather in Paris?")
    request["messages"] += [
        {"role": "assistant", "content": "It is 11 degrees."},
        {"role": "user", "content": "And in Rome?"},
    ]
    (call,) = decide(request, Persona.DILIGENT, 0).tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Rome"})


def test_a_result_of_an_earlier_turn_can_be_passed_on():
    request = request_of("What is 6 times 7?")
    function = {"name": "calculate_expr", "arguments": '{"expression": "6 * 7"}'}
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": '{"result": 42}'},
        {"role": "assistant", "content": "42"},
        {"role": "user", "content": "Send it to Anna."},
    ]
    (call,) = decide(request, Persona.DILIGENT, 0).tool_calls
    assert call.arguments["to"] == "Anna"
    assert "42" in call.arguments["body"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = wordlist(
    "weather in Paris and Rome message it to Bob 15% of 240 tomorrow at 3pm 'quoted' translate French delete"
)
prompts = st.text(max_size=120) | st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
names = st.sampled_from([tool["function"]["name"] for tool in LAB]) | st.text(max_size=8)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["a", "b"]),
            "function": st.fixed_dictionaries({"name": names, "arguments": json_values.map(json.dumps)}),
        }
    ),
    max_size=3,
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": prompts})
    | st.fixed_dictionaries({"role": st.just("assistant"), "content": st.none(), "tool_calls": calls})
    | st.fixed_dictionaries(
        {
            "role": st.just("tool"),
            "tool_call_id": st.sampled_from(["a", "b"]),
            "content": json_values.map(json.dumps) | st.text(max_size=40),
        }
    )
    | st.fixed_dictionaries({"role": st.just("system"), "content": st.text(max_size=60)}),
    min_size=1,
    max_size=6,
)
params = st.dictionaries(
    st.sampled_from(["to", "city", "date", "amount", "text", "from", "query", "when", "x", "items"]),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])},
        optional={"description": st.text(max_size=30), "enum": st.lists(st.text(max_size=5), max_size=3)},
    )
    | json_values,
    max_size=4,
)
tools = st.lists(
    st.builds(
        lambda name, description, properties: {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        },
        st.sampled_from(["sendIt", "get_thing", "weather", "addEvent"]) | st.text(max_size=10),
        st.text(max_size=40),
        params,
    ),
    max_size=4,
)


@settings(max_examples=250, deadline=None)
@given(messages, st.just(LAB) | st.just([*LAB, REPORT]) | tools, st.sampled_from(Persona), st.integers(0, 5))
def test_decide_never_raises_and_is_deterministic(messages, tools, persona, seed):
    request = {"messages": messages, "tools": tools}
    decision = decide(request, persona, seed)
    assert decision == decide(json.loads(json.dumps(request)), persona, seed)
    assert decision.tool_calls or isinstance(decision.text, str)
    json.dumps([dict(call.arguments) for call in decision.tool_calls])
