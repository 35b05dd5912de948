"""Writes that the gateway answers in the place of their server, by the replies of a clean run.

An audit repeats an agent many times. Beyond this machine, only the clean runs carry out their writes. The
first one's replies are recorded; the later runs get these, so that no write reaches the server again.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from wirefault.dialects.http import Reply, Request
from wirefault.dialects.model_requests import may_ask_model
from wirefault.gateway.endpoint import Endpoint
from wirefault.settings.settings import SettingsError
from wirefault.wiring.write_requests import path_template

NOT_RECORDED = "the clean run made no such write, and the audit sends none to this server"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "CONNECT", "TRACE"})
_IDEMPOTENCY_KEYS = ("Idempotency-Key", "X-Idempotency-Key")
_ID_NAME = re.compile(r"(?:^|_)(?:id|number|no|ref|reference)$|[a-z](?:Id|Number|Ref)$")
_LAST_DIGITS = re.compile(r"(\d+)(?=\D*$)")


@dataclass(frozen=True)
class WritesDocument:
    """The setting ``audit_writes``, as JSON."""

    mode: Literal["record", "answer"]
    file: str
    passed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By link: patterns of calls with another method than GET that only read, so that they are forwarded."""

    def dump(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


_DOCUMENT = TypeAdapter(WritesDocument)


@dataclass(frozen=True)
class _Recorded:
    """One write of a clean run, and its reply."""

    link: str
    call: str
    """Method and path, with ids as ``*``."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class AnsweredWrites:
    """Chooses who answers the writes of one run: their server, recorded, or the record alone."""

    def __init__(self, document: WritesDocument) -> None:
        self._document = document
        self._endpoints: dict[str, Endpoint] = {}
        self._recorded: dict[tuple[str, str], list[_Recorded]] = {}
        if document.mode == "answer":
            for each in _read(Path(document.file)):
                self._recorded.setdefault((each.link, each.call), []).append(each)

    @classmethod
    def of(cls, setting: str) -> AnsweredWrites | None:
        """Read the setting; None if writes go to their servers. Raises ``SettingsError``."""
        if not setting:
            return None
        try:
            return cls(_DOCUMENT.validate_json(setting))
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"AUDIT_WRITES: the replies of the clean runs cannot be read: {error}"
            ) from None

    def endpoint(self, link: str, method: str, target: str, usual: Endpoint) -> Endpoint:
        """Return the upstream of that request: ``usual``, unless the request may be a write."""
        if not self._may_write(link, method, target) or usual.opener is not None:
            return usual
        known = self._endpoints.get(link)
        if known is None:
            if self._document.mode == "record":
                known = replace(usual, recorder=_WriteRecorder(Path(self._document.file), link))
            else:
                player = _WritePlayer(link, self._recorded)
                known = Endpoint("", 0, usual.authority, is_lab=False, player=player)
            self._endpoints[link] = known
        return known

    def _may_write(self, link: str, method: str, target: str) -> bool:
        if method in _SAFE_METHODS or may_ask_model(target.partition("?")[0]):
            return False
        call = f"{method} {path_template(target)}"
        return not any(fnmatchcase(call, pattern) for pattern in self._document.passed.get(link, ()))


class _WriteRecorder:
    """Appends each write and its reply to the file. Implements ``Recorder``."""

    def __init__(self, file: Path, link: str) -> None:
        self._file, self._link = file, link
        self.failure = ""

    def ask(self, request: Request) -> Callable[[Reply], None]:
        return partial(self._keep, f"{request.method} {path_template(request.target)}")

    def _keep(self, call: str, reply: Reply) -> None:
        row = {
            "link": self._link,
            "call": call,
            "status": reply.status,
            "headers": [list(header) for header in reply.headers],
            "body": base64.b64encode(reply.body).decode(),
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _read(file: Path) -> list[_Recorded]:
    rows = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    )
    return [
        _Recorded(
            row["link"],
            row["call"],
            row["status"],
            tuple((name, value) for name, value in row["headers"]),
            base64.b64decode(row["body"]),
        )
        for row in rows
    ]


class _WritePlayer:
    """Gives the recorded replies of one link in their order, then the last one with its ids counted up.

    A repetition with the idempotency key of an earlier write gets that one's reply. Implements ``Player``.
    """

    not_recorded = NOT_RECORDED

    def __init__(self, link: str, recorded: Mapping[tuple[str, str], Sequence[_Recorded]]) -> None:
        self._link, self._recorded = link, recorded
        self._answered: dict[str, int] = {}
        self._by_key: dict[str, Reply] = {}

    def next_reply(self, request: Request) -> Reply | None:
        call = f"{request.method} {path_template(request.target)}"
        recorded = self._recorded.get((self._link, call))
        if not recorded:
            return None
        key = next((value for name in _IDEMPOTENCY_KEYS if (value := request.header(name))), "")
        if key and key in self._by_key:
            return self._by_key[key]
        number = self._answered.get(call, 0)
        self._answered[call] = number + 1
        first = recorded[min(number, len(recorded) - 1)]
        further = max(number - len(recorded) + 1, 0)
        reply = Reply(first.headers, _counted_up(first.body, further), first.status)
        if key:
            self._by_key[key] = reply
        return reply


def _counted_up(body: bytes, by: int) -> bytes:
    """Return the body of JSON with its ids raised by a number; any other body unchanged."""
    if not by:
        return body
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(value, dict):
        return body
    return json.dumps({name: _raised(name, item, by) for name, item in value.items()}).encode()


def _raised(name: str, value: Any, by: int) -> Any:
    if not _ID_NAME.search(name) or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value + by
    if isinstance(value, str) and (digits := _LAST_DIGITS.search(value)):
        raised = str(int(digits[1]) + by).zfill(len(digits[1]))
        return value[: digits.start()] + raised + value[digits.end() :]
    return value
