"""Real clients that exist before a run in this process, over HTTPS and plain HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import uvloop

from tests.examples.serving import served
from wirefault import Arm, Experiment, ExperimentReport
from wirefault.history.events import WentPastLab

pytestmark = pytest.mark.slow

CHAT = "https://api.openai.com/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Hello"}]
BODY = {"model": "gpt-4o-mini", "messages": MESSAGES}
CLAUDE = {"model": "claude", "max_tokens": 50, "messages": MESSAGES}
OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0}

# made by `ran`, since the imports take seconds, which each worker would pay when it collects tests
SDKS: dict[str, Any] = {}
REQUESTS, HTTPX, ASYNC_HTTPX = requests.Session(), httpx.Client(), httpx.AsyncClient()


def chat():
    return SDKS["openai"].chat.completions.create(**BODY).choices[0].message.content


def streamed_chat():
    chunks = SDKS["openai"].chat.completions.create(**BODY, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def responses():
    return SDKS["openai"].responses.create(model="gpt-4o-mini", input="Hello").output_text


async def async_chat():
    return (await SDKS["async openai"].chat.completions.create(**BODY)).choices[0].message.content


async def streamed_async_chat():
    chunks = await SDKS["async openai"].chat.completions.create(**BODY, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


def message():
    return SDKS["anthropic"].messages.create(**CLAUDE).content[0].text


def streamed_message():
    with SDKS["anthropic"].messages.stream(**CLAUDE) as stream:
        return "".join(stream.text_stream)


async def async_message():
    return (await SDKS["async anthropic"].messages.create(**CLAUDE)).content[0].text


def post(client: Any) -> Any:
    def call():
        reply = client.post(CHAT, json=BODY)
        reply.raise_for_status()
        return reply.json()["choices"][0]["message"]["content"]

    return call


async def async_post():
    reply = await ASYNC_HTTPX.post(CHAT, json=BODY)
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]["content"]


MODELS = {
    "openai": chat,
    "openai, streamed": streamed_chat,
    "openai, responses": responses,
    "openai, async": async_chat,
    "openai, async and streamed": streamed_async_chat,
    "anthropic": message,
    "anthropic, streamed": streamed_message,
    "anthropic, async": async_message,
    "requests": post(REQUESTS),
    "httpx": post(HTTPX),
    "httpx, async": async_post,
}
PLAIN = ("plain requests", "plain httpx", "plain httpx, async", "plain aiohttp")
CLIENTS = [*MODELS, "aiohttp", *PLAIN]


@dataclass
class Ran:
    """The experiment with an episode for each client."""

    report: ExperimentReport
    plain_requests: list[tuple[str, str]]
    """Method and path of each request that the plain server received."""
    answers: dict[str, list[str]]
    """By client, one of each arm."""


def _empty(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [b"{}"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    import anthropic
    import openai

    SDKS.update({"openai": openai.OpenAI(**OPTIONS), "async openai": openai.AsyncOpenAI(**OPTIONS)})
    SDKS["anthropic"] = anthropic.Anthropic(**OPTIONS)
    SDKS["async anthropic"] = anthropic.AsyncAnthropic(**OPTIONS)
    answers: dict[str, list[str]] = {}

    async def main(url: str) -> ExperimentReport:
        session = aiohttp.ClientSession()

        async def aiohttp_post(target: str, **options: Any) -> Any:
            async with session.post(target, **options) as reply:
                reply.raise_for_status()
                body = await reply.json()
                return body["choices"][0]["message"]["content"] if body else "{}"

        calls = {
            **MODELS,
            "aiohttp": lambda: aiohttp_post(CHAT, json=BODY),
            "plain requests": lambda: REQUESTS.post(url).raise_for_status() or "{}",
            "plain httpx": lambda: HTTPX.post(url).raise_for_status().text,
            "plain httpx, async": lambda: _text(ASYNC_HTTPX.post(url)),
            "plain aiohttp": lambda: aiohttp_post(url),
        }

        async def agent(client: str) -> str:
            try:
                answer = await asyncio.to_thread(calls[client])
                answer = await answer if asyncio.iscoroutine(answer) else answer
            except Exception as error:  # noqa: BLE001 - each client has its own
                answer = f"failed: {type(error).__name__} {error}"
            answers.setdefault(client, []).append(answer)
            return answer

        experiment = Experiment(
            subject=agent,
            prompts=CLIENTS,
            wiring={"intercept": {"models": "scripted"}},
            variants={
                "error": Arm(faults=[{"fault": "server_error", "links": "all"}]),
                "cut": Arm(faults=[{"fault": "stream_cut", "links": "model"}]),
            },
            checks=["completes"],
            seed=1,
        )
        try:
            return await experiment.run_async(folder=folder, toxiproxy="embedded", say=lambda _: None)
        finally:
            await session.close()
            await ASYNC_HTTPX.aclose()
            await asyncio.gather(SDKS["async openai"].close(), SDKS["async anthropic"].close())

    folder: Path = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch, served(_empty) as plain:
        patch.chdir(folder)
        report = asyncio.run(main(f"{plain.url}/x"))
    for client in (REQUESTS, HTTPX, SDKS["openai"], SDKS["anthropic"]):
        client.close()
    yield Ran(report, plain.requests, answers)


async def _text(reply: Any) -> str:
    return (await reply).raise_for_status().text


@pytest.mark.parametrize("client", CLIENTS)
def test_client_meets_fault_in_its_arm_only(ran: Ran, client: str) -> None:
    before, faulted, _, after = ran.answers[client]
    assert not before.startswith("failed") and not after.startswith("failed")
    assert faulted.startswith("failed") and "500" in faulted
    [episode] = [each for each in ran.report.arms["error"].episodes if each.prompt == client]
    assert [(fault.fault, fault.injected) for fault in episode.metrics.faults] == [("server_error", True)]
    assert (episode.metrics.calls, episode.metrics.failed_calls) == (1, 1)


@pytest.mark.parametrize("client", CLIENTS)
def test_stream_is_cut(ran: Ran, client: str) -> None:
    [episode] = [each for each in ran.report.arms["cut"].episodes if each.prompt == client]
    assert ran.answers[client][2].startswith("failed") == ("streamed" in client)
    assert any(fault.injected for fault in episode.metrics.faults) == ("streamed" in client)


def test_only_requests_without_fault_reach_plain_server(ran: Ran) -> None:
    assert ran.plain_requests == [("POST", "/x")] * (3 * len(PLAIN))


def test_no_connection_bypasses_the_tap(ran: Ran) -> None:
    events = [event for episode in ran.report.episodes for event in episode.events]
    assert not [event for event in events if isinstance(event, WentPastLab)]


def test_clients_on_uvloop_meet_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import openai

    monkeypatch.chdir(tmp_path)

    async def main(url: str) -> ExperimentReport:
        async with httpx.AsyncClient() as client, openai.AsyncOpenAI(**OPTIONS) as model:
            calls = {
                "httpx": lambda: client.get(url),
                "openai": lambda: model.chat.completions.create(**BODY),
            }

            async def agent(prompt: str) -> str:
                try:
                    reply = await calls[prompt]()
                except openai.InternalServerError as error:
                    return str(error.status_code)
                return str(getattr(reply, "status_code", 200))

            return await Experiment(
                subject=agent,
                prompts=[*calls],
                wiring={"intercept": {"models": "scripted"}},
                faults=[{"fault": "server_error", "links": "all"}],
                checks=["completes"],
            ).run_async(toxiproxy="embedded", say=lambda _: None)

    with served(_empty) as plain:
        report = uvloop.run(main(plain.url))
    answers = {name: [each.answer[0] for each in arm.episodes] for name, arm in report.arms.items()}
    assert answers == {"control": ["2", "2"], "method": ["5", "5"], "control-after": ["2", "2"]}
