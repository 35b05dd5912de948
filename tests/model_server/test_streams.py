"""The scripted model's event streams, as they leave and as clients read them."""

import asyncio
import json
import threading

import pytest
from langchain_groq import ChatGroq
from pydantic import BaseModel

from tests.model_server.exchange import (
    CALL,
    PROMPT,
    WEATHER,
    body,
    events,
    post,
    serving,
    streamed,
    tool,
)


def test_stream_has_argument_pieces_and_groq_usage(url):
    reply = post(url, body(tools=[tool(WEATHER)], stream=True))
    chunks = events(reply)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    pieces = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == CALL[0].arguments
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["x_groq"]["usage"]["total_tokens"] > 0


def test_stream_has_text_pieces_and_openai_usage_on_request(url):
    chunks = events(post(url, body(stream=True, stream_options={"include_usage": True}), "/v1"))
    texts = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
    assert len([text for text in texts if text]) > 1
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert "x_groq" not in chunks[0]


def test_each_event_is_sent_before_next_is_generated():
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


def test_simultaneous_events_are_written_one_by_one(url):
    with streamed(url) as reply:
        assert all(part.count(b"data: ") == 1 for part in reply.iter_content(None))


@pytest.mark.parametrize("streaming", [False, True])
def test_lab_groq_client_reads_stream(url, streaming):
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


def test_openai_client_parses_its_class(url):
    import openai  # a second, which every worker would spend that only reads this file

    with openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client:
        messages = [{"role": "user", "content": PROMPT}]
        completion = client.chat.completions.parse(model="gpt-5", messages=messages, response_format=Weather)
        with client.chat.completions.stream(
            model="gpt-5", messages=messages, response_format=Weather
        ) as stream:
            streamed = stream.get_final_completion()
    for each in (completion, streamed):
        assert each.choices[0].message.parsed == Weather(city="Paris", temperature=8.4)
