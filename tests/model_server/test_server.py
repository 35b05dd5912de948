"""The scripted model over real HTTP."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import requests
from langchain_groq import ChatGroq
from waitress.server import create_server

from tests.model_server.conversations import request_of
from windtunnel.core.sockets import Address, address_of, bind
from windtunnel.model_server.server import create_app

PROMPT = "What's the weather in Paris?"


@pytest.fixture(scope="module")
def url():
    listener = bind(Address("127.0.0.1", 0))
    address = address_of(listener)
    server = create_server(create_app(clock=lambda: 1772409600.0), sockets=[listener], threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield address.url
    server.close()
    with socket.socket() as poke:  # wakes its select
        poke.connect_ex((address.host, address.port))
    thread.join(5)


def post(url, body, path="/openai/v1"):
    return requests.post(f"{url}{path}/chat/completions", json=body, timeout=5)


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
    reply = post(url, request_of(PROMPT, model="scripted-diligent"), path).json()
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    assert reply["usage"]["total_tokens"] == sum(
        reply["usage"][f"{k}_tokens"] for k in ("prompt", "completion")
    )
    assert reply["created"] == 1772409600


def test_ids_repeat_with_the_seed_and_differ_with_another(url):
    ids = [post(url, request_of(PROMPT, model="scripted", seed=seed)).json()["id"] for seed in (7, 7, 8)]
    assert ids[0] == ids[1] != ids[2]


def test_a_stream_gives_arguments_in_pieces_and_groqs_usage(url):
    reply = post(url, request_of("Message Bob saying 'a rather long text'", model="scripted", stream=True))
    chunks = events(reply)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    pieces = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == {"to": "Bob", "body": "a rather long text"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["x_groq"]["usage"]["total_tokens"] > 0


def test_a_stream_gives_text_in_pieces_and_openais_usage_on_request(url):
    body = request_of(
        "Hello!", tools=[], model="scripted", stream=True, stream_options={"include_usage": True}
    )
    chunks = events(post(url, body, "/v1"))
    texts = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
    assert len([text for text in texts if text]) > 1
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert "x_groq" not in chunks[0]


GOOD = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        ([], 400, "invalid_request"),
        ({**GOOD, "model": "gpt-5"}, 404, "model_not_found"),
        ({**GOOD, "model": 3}, 400, "invalid_request"),
        ({"model": "scripted"}, 400, "invalid_request"),
        ({**GOOD, "messages": []}, 400, "invalid_request"),
        ({**GOOD, "messages": [{"role": "user"}]}, 400, "invalid_request"),
        ({**GOOD, "messages": [{"role": "king", "content": ""}]}, 400, "invalid_request"),
        ({**GOOD, "messages": ["hi"]}, 400, "invalid_request"),
        ({**GOOD, "tools": [{"function": {}}]}, 400, "invalid_request"),
        ({**GOOD, "seed": "x"}, 400, "invalid_request"),
        ({**GOOD, "stream": "yes"}, 400, "invalid_request"),
    ],
)
def test_bad_requests_get_the_providers_error(url, body, status, code):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = requests.post(f"{url}/v1/chat/completions", data=data, timeout=5)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert {"message", "type"} <= set(error)


def test_unknown_paths_and_methods_are_json_too(url):
    assert requests.get(f"{url}/nowhere", timeout=5).json()["error"]["code"] == "unknown_url"
    assert requests.get(f"{url}/v1/chat/completions", timeout=5).status_code == 405


@pytest.mark.parametrize("streaming", [False, True])
def test_the_groq_client_of_the_lab_reads_it(url, streaming):
    model = ChatGroq(
        model="scripted", api_key="none", base_url=url, timeout=5, max_retries=0, streaming=streaming
    )
    tools = request_of(PROMPT)["tools"]
    message = model.bind_tools(tools, tool_choice="any").invoke(PROMPT)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("get_weather", {"city": "Paris"})
    ]
    assert message.usage_metadata["total_tokens"] > 0
    model.client._client.close()
    model.async_client._client._transport = None


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


def test_a_taken_port_is_said_in_one_line(tmp_path):
    with bind(Address("127.0.0.1", 0)) as taken:
        code = (
            "import sys; from windtunnel.links import topology as t; from dataclasses import replace; "
            "from pathlib import Path; base = t.default_topology('lab-x'); "
            "base.services['model'] = t.Address('127.0.0.1', int(sys.argv[1])); base.dump(Path(sys.argv[2]))"
        )
        path = tmp_path / "topology.json"
        subprocess.run([sys.executable, "-c", code, str(address_of(taken).port), str(path)], check=True)
        done = subprocess.run(
            [sys.executable, "-m", "windtunnel.model_server"],
            env={**os.environ, "WINDTUNNEL_TOPOLOGY": str(path)},
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_replies_do_not_wait_for_delayed_acknowledgements(url):
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps(GOOD).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    times = []
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        for _ in range(20):
            started = time.perf_counter()
            connection.sendall(head + body)
            received = b""
            while b'"usage"' not in received:
                received += connection.recv(65536)
            times.append(time.perf_counter() - started)
    assert min(times) < 0.03  # Nagle and delayed acknowledgement would cost 40 ms each time
