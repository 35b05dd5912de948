"""Writes that the gateway answers in the place of their server, by the replies of a clean run.

An audit repeats an agent many times. Beyond this machine, only the clean runs carry out their writes. The
first one's replies are recorded; the later runs get these, so that no write reaches the server again. A write
without a recorded reply is refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.json import decode, encode

from wirefault.core.redaction import Redaction
from wirefault.core.sockets import is_this_machine
from wirefault.dialects.http import Reply, Request, data_of
from wirefault.dialects.json_values import as_object, as_text, parsed
from wirefault.dialects.mcp import CALL, SESSION_HEADER, read_message
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.http1.heads import OPERATION
from wirefault.settings.settings import SettingsError
from wirefault.wiring.links import Link
from wirefault.wiring.write_requests import Corrections, operation_in, path_template

NOT_RECORDED = "the clean run made no such write, and the audit sends none to this server"
NOT_KEPT = "the clean run's reply to this write has a secret, so it is not kept, and the audit sends none"
_IDEMPOTENCY_KEYS = ("Idempotency-Key", "X-Idempotency-Key")
_ID_NAME = re.compile(r"(?:^|_)(?:id|number|no|ref|reference)$|[a-z](?:Id|Number|Ref)$")
_GRAPHQL_NAME = re.compile(r"\bmutation\s+(\w+)")
_LAST_DIGITS = re.compile(r"(\d+)(?=\D*$)")


class WritesDocument(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The setting ``audit_writes``, as JSON."""

    mode: Literal["record", "answer"]
    file: str
    """The replies, in the user's private folder; it is removed with the lab."""
    copy: str = ""
    """The replies without secrets, kept with the audit: read where ``file`` is gone."""
    only_beyond: bool = False
    """Answer only writes that leave this machine; others go to their servers."""
    writes: Sequence[str] = ()
    reads: Sequence[str] = ()
    """The user's corrections of the list of writes."""

    def dump(self) -> str:
        return encode(self).decode()


def stays_here(upstream: str) -> bool:
    """Whether a write to that server stays on this machine."""
    if "://" not in upstream:  # of the lab
        return True
    return is_this_machine(urlsplit(upstream).hostname or "")


@dataclass(frozen=True)
class _Recorded:
    """One write of a clean run, and its reply."""

    link: str
    call: str
    """Method and path, with ids as ``*``."""
    reply: Reply | None
    """None if it has a secret and is not kept."""


class AnsweredWrites:
    """Chooses who answers the writes of one run: their server, recorded, or the record alone."""

    def __init__(self, document: WritesDocument) -> None:
        self._document = document
        self._corrections = Corrections(tuple(document.writes), tuple(document.reads))
        self._endpoints: dict[str, Endpoint] = {}
        self._recorded: dict[tuple[str, str], list[_Recorded]] = {}
        if document.mode == "answer" and not document.only_beyond:
            for each in _read(document):
                self._recorded.setdefault((each.link, each.call), []).append(each)

    @classmethod
    def of(cls, setting: str) -> AnsweredWrites | None:
        """Read the setting; None if writes go to their servers. Raises ``SettingsError``."""
        if not setting:
            return None
        try:
            return cls(decode(setting, type=WritesDocument))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise SettingsError(
                f"AUDIT_WRITES: the replies of the clean runs cannot be read: {error}"
            ) from None

    @classmethod
    def lacks_replies(cls, setting: str) -> bool:
        """Whether runs with that setting may need a reply that is not kept."""
        try:
            document = decode(setting, type=WritesDocument)
            return not document.only_beyond and any(each.reply is None for each in _read(document))
        except (OSError, ValueError, LookupError, TypeError):
            return True

    def endpoint(self, link: Link, call: str, usual: Endpoint, *, may_write: bool) -> Endpoint:
        """Return the upstream of a request: ``usual``, unless it is a write that the run must not carry out.

        ``call``: its method and path, or the MCP tool. ``may_write``: it may change state.
        """
        document = self._document
        if usual.opener is not None or not self._corrections.is_write(call, by_kind=may_write):
            return usual
        if document.only_beyond and (usual.is_lab or stays_here(link.upstream)):
            return usual
        known = self._endpoints.get(link.name)
        if known is None:
            if document.mode == "record":
                known = replace(usual, recorder=_WriteRecorder(Path(document.file), link.name))
            else:
                player = _WritePlayer(link.name, self._recorded)
                known = Endpoint("", 0, usual.authority, is_lab=False, player=player)
            self._endpoints[link.name] = known
        return known


class _WriteRecorder:
    """Appends each write and its reply to the file. Implements ``Recorder``."""

    keeps_errors = True

    def __init__(self, file: Path, link: str) -> None:
        self._file, self._link = file, link
        self.failure = ""

    def ask(self, request: Request) -> Callable[[Reply], None]:
        return partial(self._keep, _call(request))

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


def without_secrets(replies: bytes, redaction: Redaction) -> tuple[bytes, int]:
    """Return the recorded replies as they may be kept, and the number of those that may not.

    A reply with a secret keeps only its place: without the secret it would be another reply.
    """
    rows, hidden = [json.loads(line) for line in replies.splitlines()], 0
    for row in rows:
        body = base64.b64decode(row["body"]).decode("utf-8", "surrogateescape")
        headers = [[name, redaction.text(f"{name}: {value}")] for name, value in row["headers"]]
        clean = [[name, f"{name}: {value}"] for name, value in row["headers"]]
        has_cookie = any(name.lower() == "set-cookie" for name, _ in row["headers"])
        words = " ".join(row.get("words", ()))
        has_secret = redaction.body(body) != body or redaction.text(words) != words
        if has_cookie or headers != clean or has_secret:
            hidden += 1
            del row["headers"], row["body"], row["status"]
            row.pop("words", None)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows), hidden


def _read(document: WritesDocument) -> list[_Recorded]:
    file = Path(document.file)
    if not file.exists():
        file = Path(document.copy)
        if not document.copy or not file.is_file():
            raise FileNotFoundError(f"{document.copy or document.file}: missing")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [_Recorded(row["link"], row["call"], _reply(row)) for row in rows]


def _reply(row: Mapping[str, Any]) -> Reply | None:
    if "body" not in row:
        return None
    headers = tuple((str(name), str(value)) for name, value in row["headers"])
    return Reply(headers, base64.b64decode(row["body"]), int(row["status"]))


class _WritePlayer:
    """Gives the recorded replies of one link in their order, then the last one with its ids counted up.

    A repetition with the idempotency key of an earlier write gets that one's reply. Implements ``Player``.
    """

    def __init__(self, link: str, recorded: Mapping[tuple[str, str], Sequence[_Recorded]]) -> None:
        self._link, self._recorded = link, recorded
        self._answered: dict[str, int] = {}
        self._by_key: dict[str, Reply] = {}
        self.not_recorded = NOT_RECORDED

    def next_reply(self, request: Request) -> Reply | None:
        call = _call(request)
        recorded = self._recorded.get((self._link, call))
        self.not_recorded = NOT_KEPT if recorded else NOT_RECORDED
        if not recorded or request.body.lstrip()[:1] == b"[":  # a batch has the ids of several requests
            return None
        key = next((value for name in _IDEMPOTENCY_KEYS if (value := request.header(name))), "")
        key = f"{call} {key}" if key else ""
        if key and key in self._by_key:
            return _addressed(self._by_key[key], request)
        number = self._answered.get(call, 0)
        self._answered[call] = number + 1
        reply = recorded[min(number, len(recorded) - 1)].reply
        if reply is None:
            return None
        further = max(number - len(recorded) + 1, 0)
        reply = replace(reply, body=_counted_up(reply, further)) if further else reply
        if key:
            self._by_key[key] = reply
        return _addressed(reply, request)


def _call(request: Request) -> str:
    """Return method and path, with ids as ``*``, and the operation or the MCP tool."""
    message = read_message(request.body)
    if message is not None and message.method == CALL:
        operation = f"{CALL} {message.name}"
    else:
        operation = operation_in(request.body, request.header(OPERATION.decode())) or _graphql_name(
            request.body
        )
    return f"{request.method} {path_template(request.target)} {operation}".rstrip()


def _graphql_name(body: bytes) -> str:
    """Return what tells one GraphQL mutation without ``operationName`` from others, else an empty text."""
    try:
        query = as_text(as_object(parsed(body)).get("query"))
    except ValueError:
        return ""
    named = _GRAPHQL_NAME.search(query)
    return named[1] if named else " ".join(query.split()) if "{" in query else ""


def _addressed(reply: Reply, request: Request) -> Reply:
    """Return the reply to a JSON-RPC request with that request's id, as JSON or in a stream of events.

    The session of MCP is the client's own.
    """
    message = read_message(request.body)
    if message is None or message.id is None:
        return reply
    headers = tuple((name, value) for name, value in reply.headers if name.lower() != SESSION_HEADER)

    def with_id(value: dict[str, Any]) -> dict[str, Any]:
        is_response = "result" in value or "error" in value
        return {**value, "id": message.id} if is_response else value

    return replace(reply, headers=headers, body=_edited(reply, with_id))


def _edited(reply: Reply, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Return the body with each JSON object in it edited: the body itself, or each event's data."""
    if not reply.is_event_stream:
        return _edited_json(reply.body, edit)
    edited = bytearray()
    for event in reply.events():
        data = data_of(event)
        changed = _edited_json(data, edit) if data else data
        edited += event if changed == data else event.replace(data, changed)
    return bytes(edited)


def _edited_json(body: bytes, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return json.dumps(edit(value)).encode() if isinstance(value, dict) else body


def _counted_up(reply: Reply, by: int) -> bytes:
    """Return the body with its ids raised by a number, where it is JSON."""
    return _edited(reply, lambda value: _raised_in(value, by))


def _raised_in(value: dict[str, Any], by: int) -> dict[str, Any]:
    """Raise the ids of an object: of a JSON-RPC result, an MCP result's content, or each field of GraphQL."""
    if "jsonrpc" in value:
        result = value.get("result")
        return {**value, "result": _raised_result(result, by)} if isinstance(result, dict) else value
    if isinstance(value.get("data"), dict):
        fields = {
            name: _raised_in(item, by) if isinstance(item, dict) else item
            for name, item in value["data"].items()
        }
        return {**value, "data": fields}
    return {name: _raised(name, item, by) for name, item in value.items()}


def _raised_result(result: dict[str, Any], by: int) -> dict[str, Any]:
    content = result.get("content")
    if not isinstance(content, list):
        return _raised_in(result, by)
    texts = [
        {**part, "text": _edited_json(part["text"].encode(), lambda value: _raised_in(value, by)).decode()}
        if isinstance(part, dict) and isinstance(part.get("text"), str)
        else part
        for part in content
    ]
    structured = result.get("structuredContent")
    more = {"structuredContent": _raised_in(structured, by)} if isinstance(structured, dict) else {}
    return {**result, "content": texts, **more}


def _raised(name: str, value: Any, by: int) -> Any:
    if not _ID_NAME.search(name) or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value + by
    if isinstance(value, str) and (digits := _LAST_DIGITS.search(value)):
        raised = str(int(digits[1]) + by).zfill(len(digits[1]))
        return value[: digits.start()] + raised + value[digits.end() :]
    return value
