"""A wiring's request to an agent over HTTP, and the answer in its reply."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

from wirefault.history.logs import strip_control
from wirefault.settings.settings import SettingsError
from wirefault.subjects.results import value_at
from wirefault.wiring.subject_spec import (
    CONVERSATION,
    PROMPT,
    RequestSpec,
)

_MAX_REPLY = 4 * 1024 * 1024
_MAX_EXCERPT = 500
_CONNECT_TIMEOUT_S = 1.0
_READY_TIMEOUT_S = 1.0
_TAG = re.compile(r"<[^<>]{0,200}>")  # the error pages of web servers are HTML


class ReplyTimeout(Exception):
    """The reply did not arrive in time."""


class NoAnswerError(Exception):
    """The reply has no answer; the message says why."""


@dataclass(frozen=True)
class AgentReply:
    status: int
    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class AgentRequest:
    """A wiring's request to that URL. Raises ``SettingsError`` for a variable that is not set."""

    def __init__(self, spec: RequestSpec, url: str, environ: Mapping[str, str], where: str) -> None:
        self._spec = spec
        self._url = url
        self._headers: dict[str, str] = {}
        for name, value in spec.headers.items():
            try:
                self._headers[name] = Template(value).substitute(environ)
            except KeyError as error:
                problem = f"the variable {error.args[0]} is not set"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None
            except ValueError:
                problem = "a $ begins a variable's name; write $$ for a dollar sign"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None

    def send(self, prompt: str, conversation: str, identity: Mapping[str, str], seconds: float) -> AgentReply:
        """Return the agent's reply; ``identity`` has the headers that name the attempt.

        Raises ``ReplyTimeout``, or ``OSError`` and ``HTTPException`` without a complete reply.
        """
        words = {PROMPT: prompt, CONVERSATION: conversation}
        url = _filled_text(self._url, {name: quote(word, "") for name, word in words.items()})
        headers = {name: _filled_text(value, words) for name, value in self._headers.items()}
        body = None
        if self._spec.method != "GET":
            body = json.dumps(_filled(self._spec.body, words), ensure_ascii=False).encode("utf-8", "replace")
            headers = {"Content-Type": "application/json", **headers}
        return send(self._spec.method, url, {**identity, **headers}, body, seconds)

    def answer_in(self, reply: AgentReply) -> Any:
        """Return the answer, a text or a JSON value. Raises ``NoAnswerError``."""
        if not 200 <= reply.status < 300:
            text = " ".join(_TAG.sub(" ", strip_control(reply.text)).split())[:_MAX_EXCERPT]
            raise NoAnswerError(f"it answered with status {reply.status}: {text}")
        if not self._spec.answer and "json" not in reply.content_type:
            return reply.text
        try:
            return value_at(json.loads(reply.body), self._spec.answer)
        except (ValueError, RecursionError):
            raise NoAnswerError("its reply is not JSON") from None
        except LookupError as error:
            raise NoAnswerError(f"its reply has no {error.args[0]}") from None


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Fill the placeholders in a JSON value."""
    if isinstance(value, str):
        return _filled_text(value, words)
    if isinstance(value, dict):
        return {key: _filled(part, words) for key, part in value.items()}
    return [_filled(part, words) for part in value] if isinstance(value, list) else value


def _filled_text(text: str, words: Mapping[str, str]) -> str:
    """Fill both placeholders at once, so that a prompt with ``{conversation}`` in it is unchanged."""
    parts = text.split(PROMPT)
    return words[PROMPT].join(part.replace(CONVERSATION, words[CONVERSATION]) for part in parts)


def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> AgentReply:
    """Make one request on a new connection, past any proxy; redirects are not followed.

    Raises ``ReplyTimeout``, or ``OSError`` and ``HTTPException`` without a complete reply.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=seconds)
    expired = threading.Event()
    opened: list[socket.socket] = []  # the connection drops its socket before the reply is read

    def cut() -> None:
        expired.set()
        for sock in opened:
            with suppress(OSError):  # already closed
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)  # a socket's timeout restarts with each byte
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        content = response.read(_MAX_REPLY + 1)
    except (OSError, HTTPException) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise ReplyTimeout from None
        raise
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():
        raise ReplyTimeout
    if len(content) > _MAX_REPLY:
        raise HTTPException(f"its reply is larger than {_MAX_REPLY} bytes")
    return AgentReply(response.status, response.headers.get("Content-Type", ""), content)


def is_ready(url: str, ready: str) -> bool:
    """Whether ``ready`` answers 2xx; without it, whether a server listens at ``url``."""
    if not ready:
        return is_open(url)
    try:
        return 200 <= send("GET", ready, {}, None, _READY_TIMEOUT_S).status < 300
    except (OSError, HTTPException, ReplyTimeout):
        return False


def is_open(url: str) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection(server_at(url), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def server_at(url: str) -> tuple[str, int]:
    """Return host and port of the URL."""
    parts = urlsplit(url)
    return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
