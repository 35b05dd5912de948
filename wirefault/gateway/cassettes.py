"""Cassettes: one JSON file for each request to the model, with its replies in the order of the requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from wirefault.core.files import read_shared, replace_shared
from wirefault.core.identity import body_digest, text_digest
from wirefault.core.plain_data import unique
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.json_values import parsed
from wirefault.dialects.outages import CASSETTE_MISS
from wirefault.settings.settings import Settings, SettingsError

_ID_NAMES = frozenset(("id", "call_id", "tool_call_id", "tool_use_id", "previous_response_id"))
# Arguments and results of tools that a dialect has as objects: an id in them is not the id of a call.
_TOOL_DATA = frozenset(("input", "args", "response"))
_MAX_DEPTH = 100


def canonical_request(request: Request) -> dict[str, Any]:
    """Return the request as JSON, which is equal for equal requests in all runs.

    Headers and query are left out, since they may contain a key, and so is ``seed``, which differs by run.
    Ids of calls and replies, which models and clients draw at random, are replaced by their order.
    """
    try:
        body = _with_numbered_ids(parsed(request.body), {}) if request.body else None
    except ValueError:
        body = f"no JSON: BLAKE2b {body_digest(request.body)}"
    if isinstance(body, dict):
        body.pop("seed", None)
    return {"method": request.method, "path": request.path, "body": body}


def request_key(canonical: dict[str, Any]) -> str:
    """Return a hexadecimal digest of a canonical request.

    The order of its keys does not matter, nor do null fields and ``service_tier``, which earlier versions of
    the lab's agent sent.
    """
    body = canonical.get("body")
    if isinstance(body, dict):
        body = _without_nulls(body)
        body.pop("service_tier", None)
        if isinstance(messages := body.get("messages"), list):
            body["messages"] = [_without_nulls(message) for message in messages]
    return text_digest(json.dumps({**canonical, "body": body}, sort_keys=True), size=16).hex()


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if item is not None}


def _with_numbered_ids(value: Any, numbers: dict[str, str], depth: int = 0) -> Any:
    """Return a copy with ``id1`` for the first id, everywhere, ``id2`` for the next one, and so on.

    Raises ``ValueError`` if it is nested too deep.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, list):
        return [_with_numbered_ids(item, numbers, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {}
    for name, item in sorted(value.items()):
        if name in _ID_NAMES and isinstance(item, str):
            item = numbers.setdefault(item, f"id{len(numbers) + 1}")
        elif not (name in _TOOL_DATA and isinstance(item, dict)):
            item = _with_numbered_ids(item, numbers, depth + 1)
        copy[name] = item
    return copy


def check_cassettes(settings: Settings) -> None:
    """Raise ``SettingsError`` if there is nothing to replay, or no folder for the recording."""
    folder = Path(settings.cassettes)
    if settings.model == "replay":
        CassettePlayer(folder)
    elif settings.model == "record":
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"CASSETTES={folder}: cannot record into this folder: {error.strerror}"
            ) from None


_MAX_CASSETTE_BYTES = 64 * 1024 * 1024


class CassettePlayer:
    """Replays recorded replies in one run. Raises ``SettingsError`` without any, and for a broken file."""

    not_recorded = f"{CASSETTE_MISS}: record it (MODEL=record)"

    def __init__(self, folder: Path) -> None:
        self._replies: dict[str, Iterator[Reply]] = {}
        for path in sorted(folder.glob("*.json")):
            key, replies = _read(path)
            if key in self._replies:
                raise SettingsError(f"{path}: another file in this folder has replies to the same request")
            self._replies[key] = iter(replies)
        if not self._replies:
            raise SettingsError(
                f"MODEL=replay: {folder} (CASSETTES) has no cassettes: record some first, with MODEL=record"
            )

    def next_reply(self, request: Request) -> Reply | None:
        """Return the nth recorded reply for the nth time that this request comes; None without one."""
        return next(self._replies.get(request_key(canonical_request(request)), iter(())), None)


class CassetteRecorder:
    """Records the replies of one run. They replace an earlier run's replies to the same request."""

    failure = ""
    """Why a reply was not recorded."""
    keeps_errors = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[str, list[Reply | None]] = {}

    def ask(self, request: Request) -> Callable[[Reply], None]:
        """Note a request to the model; return a function that takes its reply, and may raise ``OSError``."""
        canonical = canonical_request(request)
        replies = self._replies.setdefault(request_key(canonical), [])
        replies.append(None)  # its place follows the order of requests, whichever reply comes first
        return partial(self._keep, canonical, replies, len(replies) - 1)

    def _keep(self, canonical: dict[str, Any], replies: list[Reply | None], place: int, reply: Reply) -> None:
        replies[place] = reply
        content = {"request": canonical, "replies": [_stored(known) for known in replies if known]}
        try:
            data = json.dumps(content, indent=1, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # bytes that are not UTF-8 must be escaped
            data = json.dumps(content, indent=1).encode()
        path = self._folder / f"{request_key(canonical)}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_shared(self._folder, path, data + b"\n")


def _stored(reply: Reply) -> dict[str, Any]:
    """Return it as JSON. The body is split into lines, so that events of a stream are lines in a diff."""
    lines = reply.body.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    return {"status": reply.status, "content_type": reply.header("content-type"), "body": lines}


def _read(path: Path) -> tuple[str, list[Reply]]:
    """Return the request's key, and its replies. Raises ``SettingsError``."""
    try:
        content = json.loads(
            read_shared(path.parent, path, _MAX_CASSETTE_BYTES).decode(), object_pairs_hook=unique
        )
        return request_key(content["request"]), [_reply(stored) for stored in content["replies"]]
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except KeyError as error:
        raise SettingsError(f"{path}: not a cassette: {error} is missing") from None
    except RecursionError:
        raise SettingsError(f"{path}: not a cassette: nested too deeply") from None
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"{path}: not a cassette: {error}") from None


def _reply(stored: dict[str, Any]) -> Reply:
    body = "".join(stored["body"]).encode("utf-8", "surrogateescape")
    return Reply((("Content-Type", str(stored["content_type"])),), body, HTTPStatus(stored["status"]))
