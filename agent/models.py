"""The model client: one ``ChatGroq`` for a run, behind the model link, with every try recorded."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import httpx
from langchain_groq import ChatGroq
from pydantic import SecretStr

from agent.calls import CURRENT_ATTEMPT, AttemptInProgress
from windtunnel.core.digest import body_digest
from windtunnel.history.events import ModelCall
from windtunnel.links.topology import Topology
from windtunnel.settings.settings import Settings

_MAX_REPLY_BYTES = 16 * 1024 * 1024


class ModelTransport(httpx.BaseTransport):
    """Puts the identity of the attempt in progress on each request, and records how the request ended."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = CURRENT_ATTEMPT.get()
        seconds = min(attempt.context.settings.model_timeout, attempt.seconds_left)
        if seconds <= 0:
            raise httpx.ReadTimeout("the attempt's time is over", request=request)
        attempt.model_tries += 1
        identity = replace(attempt.context.identity, call=attempt.model_calls, try_=attempt.model_tries)
        request.headers.update(identity.headers("model"))
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        start = time.perf_counter()
        try:
            response, digest = self._inner.handle_request(request), ""
            if "event-stream" not in response.headers.get("content-type", ""):
                body = _body(response, start + seconds)
                response, digest = _with_body(response, body), body_digest(body)
        except httpx.HTTPError as error:
            _record(attempt, start, None, type(error).__name__)
            raise
        error_name = f"http_{response.status_code}" if response.status_code >= 400 else None
        _record(attempt, start, response.status_code, error_name, digest)
        return response

    def close(self) -> None:
        self._inner.close()


def _body(response: httpx.Response, deadline: float) -> bytes:
    """The whole body, undecoded. httpx bounds each wait for bytes, ``deadline`` bounds their sum."""
    body = bytearray()
    with closing(response):
        for chunk in response.iter_raw():
            body += chunk
            if time.perf_counter() > deadline:
                raise httpx.ReadTimeout("the reply did not end in time")
            if len(body) > _MAX_REPLY_BYTES:
                raise httpx.DecodingError("the reply is larger than 16 MiB")
    return bytes(body)


def _with_body(response: httpx.Response, body: bytes) -> httpx.Response:
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=httpx.ByteStream(body),
        extensions=response.extensions,
    )


def _record(
    attempt: AttemptInProgress, start: float, status: int | None, error: str | None, digest: str = ""
) -> None:
    identity = attempt.context.identity
    tries = (attempt.model_calls, attempt.model_tries)
    ms = (time.perf_counter() - start) * 1000
    attempt.context.record(
        ModelCall(time.time(), identity.episode, identity.attempt, *tries, ms, status, error, digest)
    )


def build_model(settings: Settings, topology: Topology, key: str, client: httpx.Client) -> ChatGroq:
    """The model for the run. Whoever opened ``client`` closes it."""
    return ChatGroq(
        model_name=settings.model_name,
        api_key=SecretStr(key),
        base_url=topology.proxies["model"].url,
        timeout=settings.model_timeout,
        temperature=0,
        model_kwargs={"seed": settings.seed},
        http_client=client,
        # never used; without it ChatGroq builds one that obeys ALL_PROXY, and fails if that is a SOCKS proxy
        http_async_client=httpx.AsyncClient(transport=httpx.AsyncBaseTransport(), trust_env=False),
    )


def open_client(settings: Settings) -> httpx.Client:
    transport = ModelTransport(httpx.HTTPTransport(trust_env=False))
    return httpx.Client(transport=transport, timeout=settings.model_timeout, trust_env=False)
