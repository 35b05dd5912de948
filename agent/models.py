"""The model client: one ``ChatGroq`` for a run, behind the model link, with every try recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping

import httpx
from langchain_groq import ChatGroq
from pydantic import SecretStr

from agent.calls import CURRENT_ATTEMPT, Attempt
from windtunnel.baggage import Identity
from windtunnel.history import ModelCall
from windtunnel.settings import Settings, SettingsError
from windtunnel.topology import Topology


class ModelTransport(httpx.BaseTransport):
    """Names each request by the attempt in progress, and records how it went."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = CURRENT_ATTEMPT.get()
        attempt.model_tries += 1
        who = attempt.context.identity
        identity = Identity(who.run, who.episode, who.attempt, attempt.model_calls, attempt.model_tries)
        request.headers.update(identity.headers("model"))
        start = time.perf_counter()
        try:
            response = self._inner.handle_request(request)
            if "event-stream" not in response.headers.get("content-type", ""):
                response.read()
        except httpx.HTTPError as error:
            _record(attempt, start, None, type(error).__name__)
            raise
        error_name = f"http_{response.status_code}" if response.status_code >= 400 else None
        _record(attempt, start, response.status_code, error_name)
        return response

    def close(self) -> None:
        self._inner.close()


def _record(attempt: Attempt, start: float, status: int | None, error: str | None) -> None:
    who = attempt.context.identity
    ms = (time.perf_counter() - start) * 1000
    attempt.context.record(
        ModelCall(
            time.time(),
            who.episode,
            who.attempt,
            attempt.model_calls,
            attempt.model_tries,
            ms,
            status,
            error,
        )
    )


def api_key(settings: Settings, environ: Mapping[str, str]) -> SecretStr:
    """The key for the chosen model; the scripted one takes any. Raises ``SettingsError`` without one."""
    if settings.model == "scripted":
        return SecretStr("scripted")
    if settings.model == "compatible":
        return SecretStr(environ.get("MODEL_API_KEY") or environ.get("GROQ_API_KEY") or "none")
    key = environ.get("GROQ_API_KEY")
    if not key:
        raise SettingsError(
            "MODEL=groq needs a key: set GROQ_API_KEY in the environment or in .env,"
            " or leave MODEL out to fly with the scripted model"
        )
    return SecretStr(key)


def build_model(settings: Settings, topology: Topology, key: str, client: httpx.Client) -> ChatGroq:
    """The client for the run. ``client`` is closed by who opened it."""
    return ChatGroq(
        model=settings.model_name,
        api_key=SecretStr(key),
        base_url=topology.proxies["model"].url,
        timeout=settings.model_timeout,
        temperature=0,
        model_kwargs={"seed": settings.seed % 2**31},
        http_client=client,
    )


def open_client(settings: Settings) -> httpx.Client:
    transport = ModelTransport(httpx.HTTPTransport(trust_env=False))
    return httpx.Client(transport=transport, timeout=settings.model_timeout, trust_env=False)
