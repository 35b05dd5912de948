"""The HTTP request that takes a prompt to an agent, and the answer in its reply."""

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
from wirefault.subjects.json_path import value_at
from wirefault.wiring.subject_spec import CONVERSATION, PROMPT, RequestSpec

_LARGEST_REPLY = 4 * 1024 * 1024
_SHOWN = 500
_LOOK_BOUND_S = 1.0
_TAG = re.compile(r"<[^<>]{0,200}>")  # the error pages of web servers are HTML


class TooSlowError(Exception):
    """The reply was not there in time."""


class NoAnswerError(Exception):
    """The reply has no answer in it; the message says why."""


@dataclass(frozen=True)
class AgentReply:
    """What the agent replied."""

    status: int
    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def server_at(url: str) -> tuple[str, int]:
    """Host and port of the URL."""
    parts = urlsplit(url)
    return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)


def is_open(url: str) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection(server_at(url), timeout=_LOOK_BOUND_S):
            return True
    except OSError:
        return False


class AgentRequest:
    """The request of a wiring, to that URL. Raises ``SettingsError`` for a variable that is not set."""

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
                problem = "a $ begins the name of a variable; a real one is $$"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None

    def send(self, prompt: str, conversation: str, identity: Mapping[str, str], seconds: float) -> AgentReply:
        """The agent's reply; ``identity`` are the headers that name the attempt.

        Raises ``TooSlowError``, or ``OSError`` and ``HTTPException`` where no whole reply comes.
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
        """A text or a JSON value. Raises ``NoAnswerError``."""
        if not 200 <= reply.status < 300:
            shown = " ".join(_TAG.sub(" ", strip_control(reply.text)).split())[:_SHOWN]
            raise NoAnswerError(f"it answered with status {reply.status}: {shown}")
        if not self._spec.answer and "json" not in reply.content_type:
            return reply.text
        try:
            return value_at(json.loads(reply.body), self._spec.answer)
        except (ValueError, RecursionError):
            raise NoAnswerError("its reply is not JSON") from None
        except LookupError as error:
            raise NoAnswerError(f"its reply has no {error.args[0]}") from None


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """The JSON value with the words in the place of their names."""
    if isinstance(value, str):
        return _filled_text(value, words)
    if isinstance(value, dict):
        return {key: _filled(part, words) for key, part in value.items()}
    return [_filled(part, words) for part in value] if isinstance(value, list) else value


def _filled_text(text: str, words: Mapping[str, str]) -> str:
    """At once: a prompt that has ``{conversation}`` in it stays as it is."""
    parts = text.split(PROMPT)
    return words[PROMPT].join(part.replace(CONVERSATION, words[CONVERSATION]) for part in parts)


def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> AgentReply:
    """One request on a connection of its own, past any proxy. Redirects are not followed.

    Raises ``TooSlowError``, or ``OSError`` and ``HTTPException`` where no whole reply comes.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=seconds)
    expired = threading.Event()
    opened: list[socket.socket] = []  # the connection does not keep it until its reply is read

    def cut() -> None:
        expired.set()
        for sock in opened:
            with suppress(OSError):  # it is closed by now
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)  # a connection's own limit begins again with each byte
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        content = response.read(_LARGEST_REPLY + 1)
    except (OSError, HTTPException) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise TooSlowError from None
        raise
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():
        raise TooSlowError
    if len(content) > _LARGEST_REPLY:
        raise HTTPException(f"its reply is larger than {_LARGEST_REPLY} bytes")
    return AgentReply(response.status, response.headers.get("Content-Type", ""), content)
