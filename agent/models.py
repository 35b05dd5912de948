"""The model client: one ``ChatGroq`` per run, behind the model link; every try is recorded."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx
from langchain_core.messages import BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_groq import ChatGroq
from pydantic import PrivateAttr, SecretStr

from agent.calls import CURRENT_ATTEMPT, AttemptInProgress
from wirefault.core.identity import body_digest, body_hash
from wirefault.history.events import ModelCall
from wirefault.settings.settings import Settings
from wirefault.wiring.topology import Topology

_MAX_REPLY_BYTES = 16 * 1024 * 1024
_TOO_LARGE = "the reply is larger than 16 MiB"


class ModelTransport(httpx.BaseTransport):
    """Add the current attempt's identity to each request, and record how the request ended."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = CURRENT_ATTEMPT.get()
        seconds = min(attempt.context.settings.model_timeout, attempt.seconds_left)
        if seconds <= 0:
            raise httpx.ReadTimeout("the attempt's time is over", request=request)
        attempt.model_tries += 1
        identity = replace(attempt.context.identity, call=attempt.model_calls, try_=attempt.model_tries)
        request.headers.update(identity.headers("model", key=attempt.key))
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        model_try = _Try(attempt, time.perf_counter())
        try:
            response = self._inner.handle_request(request)
            model_try.status = response.status_code
            if "event-stream" in response.headers.get("content-type", ""):
                stream = _RecordedStream(response.stream, model_try)
                attempt.to_close.callback(stream.close)
                return _with(response, stream)
            body = _body(response, model_try.start + seconds)
        except httpx.HTTPError as error:
            model_try.status = None
            model_try.record(error)
            raise
        model_try.record(digest=body_digest(body))
        return _with(response, httpx.ByteStream(body))

    def close(self) -> None:
        self._inner.close()


def _body(response: httpx.Response, deadline: float) -> bytes:
    """Read the whole body, undecoded. httpx limits each wait for bytes; ``deadline`` limits their sum."""
    body = bytearray()
    with closing(response):
        for chunk in response.iter_raw():
            body += chunk
            if time.perf_counter() > deadline:
                raise httpx.ReadTimeout("the reply did not end in time")
            if len(body) > _MAX_REPLY_BYTES:
                raise httpx.DecodingError(_TOO_LARGE)
    return bytes(body)


def _with(response: httpx.Response, stream: httpx.SyncByteStream) -> httpx.Response:
    return httpx.Response(
        response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
    )


class _Try:
    """One HTTP try at the model, recorded when it ends. ``start`` is a time of ``time.perf_counter``."""

    def __init__(self, attempt: AttemptInProgress, start: float) -> None:
        self.attempt = attempt
        self.start = start
        self.status: int | None = None
        self._numbers = (attempt.model_calls, attempt.model_tries)
        self._recorded = False

    def record(self, error: httpx.HTTPError | None = None, digest: str = "") -> None:
        if self._recorded:
            return
        self._recorded = True
        failed = f"http_{self.status}" if self.status is not None and self.status >= 400 else None
        name = type(error).__name__ if error else failed
        context, ms = self.attempt.context, round((time.perf_counter() - self.start) * 1000, 3)
        identity = context.identity
        context.record(
            ModelCall(
                time.time(),
                identity.episode,
                identity.attempt,
                ordinal=self._numbers[0],
                try_=self._numbers[1],
                ms=ms,
                status=self.status,
                error=name,
                reply_digest=digest,
            )
        )


class _RecordedStream(httpx.SyncByteStream):
    """An event stream, passed on as it comes and recorded when it ends or its reader leaves.

    The model's time limit applies to each wait, the attempt's to their sum.
    """

    def __init__(self, inner: httpx.SyncByteStream | httpx.AsyncByteStream, model_try: _Try) -> None:
        assert isinstance(inner, httpx.SyncByteStream)  # always, with a synchronous client
        self._inner = inner
        self._try = model_try

    def __iter__(self) -> Iterator[bytes]:
        hashed, size = body_hash(), 0
        try:
            for chunk in self._inner:
                hashed.update(chunk)
                size += len(chunk)
                if self._try.attempt.seconds_left <= 0:
                    raise httpx.ReadTimeout("the attempt's time is over")
                if size > _MAX_REPLY_BYTES:
                    raise httpx.DecodingError(_TOO_LARGE)
                yield chunk
        except httpx.HTTPError as error:
            self._try.record(error)
            raise
        self._try.record(digest=hashed.hexdigest())

    def close(self) -> None:
        self._inner.close()
        self._try.record()  # its reader does not want the rest


class _CompatibleModel(ChatGroq):
    """A model that sends only chat completions' fields, without nulls: strict servers refuse others.

    It formats each tool once. LangChain formats before each request, a fifth of an episode's time.
    """

    _formatted: dict[int, tuple[Any, dict[str, Any]]] = PrivateAttr(default_factory=dict)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        """Bind tools like the base class, but format each tool only once."""
        return super().bind_tools([self._format(tool) for tool in tools], **options)

    def _create_message_dicts(
        self, messages: list[BaseMessage], stop: list[str] | None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        written, parameters = super()._create_message_dicts(messages, stop)
        parameters.pop("service_tier", None)  # a default, which few servers know
        return [_without_nulls(message) for message in written], _without_nulls(parameters)

    def _format(self, tool: Any) -> dict[str, Any]:
        if id(tool) not in self._formatted:  # the reference to the tool keeps its id from being reused
            self._formatted[id(tool)] = tool, convert_to_openai_tool(tool)
        return self._formatted[id(tool)][1]


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def build_model(
    settings: Settings, topology: Topology, key: str, client: httpx.Client, name: str = ""
) -> ChatGroq:
    """Build the run's model, or another one of its server by name. The caller closes ``client``."""
    return _CompatibleModel(
        model_name=name or settings.model_name,
        api_key=SecretStr(key),
        base_url=topology.proxies["model"].url,
        timeout=settings.model_timeout,
        temperature=0,
        streaming=settings.stream,
        model_kwargs={"seed": settings.seed},
        http_client=client,
        # unused; without it ChatGroq builds one that obeys ALL_PROXY, and fails for a SOCKS proxy
        http_async_client=httpx.AsyncClient(transport=httpx.AsyncBaseTransport(), trust_env=False),
    )


def open_client(settings: Settings) -> httpx.Client:
    # the model link is plain HTTP, and loading the system's authorities is slow
    no_authorities = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = ModelTransport(httpx.HTTPTransport(verify=no_authorities, trust_env=False))
    return httpx.Client(transport=transport, timeout=settings.model_timeout, trust_env=False)
