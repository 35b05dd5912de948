"""The scripted model's wire over real HTTP, with an engine that says what each test needs."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import openai
import pytest
import requests
from langchain_groq import ChatGroq
from pydantic import BaseModel

from tests.model_server.serving import serve
from windtunnel.core.sockets import Address, address_of, bind
from windtunnel.model_server.answer import Answer, PlannedCall, Value
from windtunnel.model_server.decide import Persona
from windtunnel.model_server.server import create_app

PROMPT = "What's the weather in Paris?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Gets the weather of a city", "parameters": CITY}
CALL = (PlannedCall("get_weather", {"city": "Paris, the long way round"}),)
DONE = Answer("done", "It is 8.4 celsius in Paris.", (Value(8.4, "celsius", "temp"),), {"city": "Paris"})


def tool(function):
    return {"type": "function", "function": function}


def decide(messages, tools, persona, seed, parallel):
    """Calls the first tool until it has answered; the answer tells the persona where it is asked for that."""
    if messages[-1]["content"] == "who?":
        return Answer("done", persona.value)
    return CALL if tools and messages[-1]["role"] == "user" else DONE


def serving(**options):
    return serve(create_app(decide, clock=lambda: 1772409600.0, **options))


@pytest.fixture(scope="module")
def url():
    with serving(persona=Persona.STUBBORN) as url:
        yield url


def body(prompt=PROMPT, **more):
    return {"model": "scripted", "messages": [{"role": "user", "content": prompt}], **more}


def post(url, body, path="/openai/v1"):
    return requests.post(f"{url}{path}/chat/completions", json=body, timeout=20)


def streamed(url):
    return requests.post(f"{url}/v1/chat/completions", json=body(stream=True), stream=True, timeout=20)


def said(url, **more):
    """The message of the reply to a prompt."""
    reply = post(url, body(**more)).json()
    assert "choices" in reply, reply
    return reply["choices"][0]["message"]


def events(reply):
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_health_and_models(url):
    assert requests.get(url, timeout=5).json() == {"status": "OK"}
    for path in ("/openai/v1/models", "/v1/models"):
        listed = requests.get(url + path, timeout=5).json()["data"]
        assert {"scripted", "scripted-fabricator"} <= {model["id"] for model in listed}


@pytest.mark.parametrize("path", ["/openai/v1", "/v1"])
def test_a_completion_has_a_tool_call_and_usage(url, path):
    reply = post(url, body(tools=[tool(WEATHER)]), path).json()
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == CALL[0].arguments
    assert reply["usage"]["total_tokens"] == sum(
        reply["usage"][f"{k}_tokens"] for k in ("prompt", "completion")
    )
    assert reply["created"] == 1772409600


def test_ids_repeat_with_the_seed_and_differ_with_another(url):
    ids = [post(url, body(seed=seed)).json()["id"] for seed in (7, 7, 8)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("model", "persona"),
    [
        ("scripted-quitter", "quitter"),
        ("openai/scripted-quitter", "quitter"),
        ("scripted", "stubborn"),
        ("gpt-5", "stubborn"),
    ],
)
def test_any_model_name_is_taken_and_may_say_the_persona(url, model, persona):
    assert said(url, prompt="who?", model=model)["content"] == persona


def test_a_stream_gives_arguments_in_pieces_and_groqs_usage(url):
    reply = post(url, body(tools=[tool(WEATHER)], stream=True))
    chunks = events(reply)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    pieces = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == CALL[0].arguments
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["x_groq"]["usage"]["total_tokens"] > 0


def test_a_stream_gives_text_in_pieces_and_openais_usage_on_request(url):
    chunks = events(post(url, body(stream=True, stream_options={"include_usage": True}), "/v1"))
    texts = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
    assert len([text for text in texts if text]) > 1
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert "x_groq" not in chunks[0]


def test_each_event_of_a_stream_leaves_before_the_next_is_made():
    gate = threading.Semaphore(0)

    async def pace():
        await asyncio.to_thread(gate.acquire)

    with serving(pace=pace) as url, streamed(url) as reply:
        parts = reply.iter_content(None)  # one part is one chunk on the wire
        read = []
        while not read or b"[DONE]" not in read[-1]:
            gate.release()
            read.append(next(parts))
    assert len(read) > 3
    assert all(part.count(b"data: ") == 1 for part in read)


def test_events_that_are_there_at_once_are_written_one_by_one(url):
    with streamed(url) as reply:
        assert all(part.count(b"data: ") == 1 for part in reply.iter_content(None))


REPORT = {"name": "Report", "description": "Report to the user; ends the task.", "parameters": CITY}


def form(schema, name="form"):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


@pytest.mark.parametrize(
    ("more", "content"),
    [
        ({}, DONE.text),
        ({"response_format": {"type": "text"}}, DONE.text),
        ({"response_format": form(CITY)}, '{"city": "Paris"}'),
        (
            {"response_format": {"type": "json_object"}},
            '{"status": "done", "answer": "It is 8.4 celsius in Paris.", '
            '"values": [{"value": 8.4, "unit": "celsius"}]}',
        ),
        ({"tools": [tool(WEATHER)], "tool_choice": "none"}, DONE.text),
        ({"max_tokens": 1, "temperature": 2, "stop": ["is"]}, DONE.text),
    ],
)
def test_text_has_the_form_that_was_asked_for(url, more, content):
    assert said(url, **more)["content"] == content


@pytest.mark.parametrize(
    ("tools", "choice", "name"),
    [
        ([WEATHER, REPORT], None, "get_weather"),
        ([WEATHER, REPORT], "required", "get_weather"),
        ([WEATHER, REPORT], {"type": "function", "function": {"name": "get_weather"}}, "get_weather"),
        ([WEATHER, REPORT], {"type": "function", "function": {"name": "Report"}}, "Report"),
        ([REPORT], "required", "Report"),
        ([{**REPORT, "name": "Failure", "parameters": {}}, REPORT], "any", "Report"),
    ],
)
def test_the_choice_of_tools_is_kept(url, tools, choice, name):
    message = said(url, tools=[*map(tool, tools)], tool_choice=choice)
    assert [call["function"]["name"] for call in message["tool_calls"]] == [name]


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
HUMID = {"type": "object", "properties": {"humidity": {"type": "number"}}, "required": ["humidity"]}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
AFTER = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize(
    ("wrong", "status", "code", "words"),
    [
        (b"{", 400, "invalid_json", "JSON"),
        (b"\xff\xfe", 400, "invalid_json", "JSON"),
        (b"[" * 100_000, 400, "invalid_json", "JSON"),
        (b"[]", 400, "invalid_request", "body"),
        ({"model": "scripted-sleeper"}, 404, "model_not_found", "scripted-sleeper"),
        ({"model": 3}, 400, "invalid_request", "model"),
        ({"messages": None}, 400, "invalid_request", "messages"),
        ({"messages": []}, 400, "invalid_request", "messages"),
        ({"messages": [{"role": "user"}]}, 400, "invalid_request", "messages.0"),
        ({"messages": [{"role": "king", "content": ""}]}, 400, "invalid_request", "messages.0.role"),
        ({"messages": ["hi"]}, 400, "invalid_request", "messages.0"),
        ({"messages": IMAGE}, 400, "invalid_request", "reads text only, not image_url"),
        ({"tools": [{"function": {}}]}, 400, "invalid_request", "tools.0.function.name"),
        ({"seed": "x"}, 400, "invalid_request", "seed"),
        ({"stream": "yes"}, 400, "invalid_request", "stream"),
        ({"n": 2}, 400, "invalid_request", "'n'"),
        ({"logprobs": True}, 400, "invalid_request", "logprobs"),
        ({"functions": [WEATHER]}, 400, "invalid_request", "send 'tools'"),
        ({"modalities": ["audio"]}, 400, "invalid_request", "modalities"),
        ({"response_format": {"type": "xml"}}, 400, "invalid_request", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, 400, "invalid_request", "response_format"),
        ({"tool_choice": "required"}, 400, "no_call", DONE.text),
        ({"tool_choice": NAMED}, 400, "invalid_request", "get_weather"),
        ({"tool_choice": {"type": "allowed_tools"}}, 400, "invalid_request", "tool_choice"),
        ({"response_format": form(HUMID)}, 400, "cannot_fill", "humidity"),
        (
            {"tools": [tool({**REPORT, "parameters": HUMID})], "tool_choice": "required"},
            400,
            "cannot_fill",
            "humidity",
        ),
        (
            {"tools": [tool(WEATHER)], "tool_choice": NAMED, "messages": AFTER},
            400,
            "no_call",
            DONE.text,
        ),
    ],
)
def test_what_cannot_be_done_is_the_providers_error_and_says_why(url, wrong, status, code, words):
    data = wrong if isinstance(wrong, bytes) else json.dumps(body("hi") | wrong).encode()
    reply = requests.post(f"{url}/v1/chat/completions", data=data, timeout=20)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert "type" in error


def test_unknown_paths_and_methods_are_json_too(url):
    assert requests.get(f"{url}/nowhere", timeout=5).json()["error"]["code"] == "unknown_url"
    assert requests.get(f"{url}/v1/chat/completions", timeout=5).status_code == 405


@pytest.mark.parametrize("streaming", [False, True])
def test_the_groq_client_of_the_lab_reads_it(url, streaming):
    model = ChatGroq(
        model="scripted", api_key="none", base_url=url, timeout=20, max_retries=0, streaming=streaming
    )
    message = model.bind_tools([tool(WEATHER)], tool_choice="any").invoke(PROMPT)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("get_weather", CALL[0].arguments)
    ]
    assert message.usage_metadata["total_tokens"] > 0
    model.client._client.close()
    model.async_client._client._transport = None


class Weather(BaseModel):
    """Weather of a city."""

    city: str
    temperature: float


def test_the_openai_client_gets_its_class_filled(url):
    with openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client:
        messages = [{"role": "user", "content": PROMPT}]
        completion = client.chat.completions.parse(model="gpt-5", messages=messages, response_format=Weather)
        with client.chat.completions.stream(
            model="gpt-5", messages=messages, response_format=Weather
        ) as stream:
            streamed = stream.get_final_completion()
    for each in (completion, streamed):
        assert each.choices[0].message.parsed == Weather(city="Paris", temperature=8.4)


@contextmanager
def process(**environ):
    child = subprocess.Popen(
        [sys.executable, "-m", "windtunnel.model_server"],
        env={**os.environ, **environ},
        pass_fds=(),
        close_fds=False,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(5)


@pytest.mark.slow
def test_the_process_serves_on_a_socket_that_was_handed_over_and_ends_with_its_launcher():
    listener = bind(Address("127.0.0.1", 0))
    reading, writing = os.pipe()
    for descriptor in (listener.fileno(), reading):
        os.set_inheritable(descriptor, True)
    environ = {
        "WINDTUNNEL_SOCKETS": json.dumps({"model": listener.fileno()}),
        "WINDTUNNEL_LIFELINE": str(reading),
    }
    with listener, process(**environ) as child:
        assert requests.get(address_of(listener).url, timeout=20).json() == {"status": "OK"}
        os.close(writing)
        assert child.wait(5) == 0
    os.close(reading)


def run(**environ):
    return subprocess.run(
        [sys.executable, "-m", "windtunnel.model_server"],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=20,
    )


@pytest.mark.slow
def test_a_taken_port_is_said_in_one_line(tmp_path):
    with bind(Address("127.0.0.1", 0)) as taken:
        code = (
            "import sys; from windtunnel.links import topology as t; from dataclasses import replace; "
            "from pathlib import Path; base = t.default_topology('lab-x'); "
            "base.services['model'] = t.Address('127.0.0.1', int(sys.argv[1])); base.dump(Path(sys.argv[2]))"
        )
        path = tmp_path / "topology.json"
        subprocess.run([sys.executable, "-c", code, str(address_of(taken).port), str(path)], check=True)
        done = run(WINDTUNNEL_TOPOLOGY=str(path))
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_unknown_persona_is_refused_before_anything_is_served():
    done = run(PERSONA="sleeper")
    assert done.returncode == 64
    assert "sleeper" in done.stderr
    assert "quitter" in done.stderr
