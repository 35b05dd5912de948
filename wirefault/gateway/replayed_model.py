"""The model's replies before a fault, replayed from a clean run.

That saves tokens, and makes an agent's way to the fault certain even if its model's answers vary. From the
request after the fault on, the model itself answers. A request without a recorded reply reaches it, too.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import decode, encode

from wirefault.core.identity import text_digest
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.json_values import as_object, parsed
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.gateway.cassettes import canonical_request
from wirefault.gateway.endpoint import Endpoint
from wirefault.settings.settings import SettingsError

# Words with a digit may differ between runs: ids, numbers, times.
_VARYING = re.compile(r"\w*\d\w*")


class ReplayDocument(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The setting ``audit_model``, as JSON."""

    mode: Literal["record", "replay"]
    file: str
    """The replies, in the user's private folder; it is removed with the lab."""
    copy: str = ""
    """The replies without secrets, kept with the audit: read where ``file`` is gone."""
    links: Sequence[str] = ()
    """The links whose replies are replayed."""

    def dump(self) -> str:
        return encode(self).decode()


@dataclass(frozen=True)
class _Recorded:
    words: tuple[str, ...]
    """The words of its request that may differ between runs, in their order."""
    reply: Reply
    dialect: str


class ReplayedModel:
    """The recorded replies of one run's model, each given once, until a fault acts in the episode."""

    def __init__(self, document: ReplayDocument) -> None:
        self._document = document
        self._struck: set[str] = set()
        self._recorded: defaultdict[tuple[str, str], deque[_Recorded]] = defaultdict(deque)
        if document.mode == "replay":
            for row in _read(document):
                reply = Reply(_headers(row), base64.b64decode(row["body"]), int(row["status"]))
                recorded = _Recorded(tuple(row["words"]), reply, str(row["dialect"]))
                self._recorded[row["link"], row["key"]].append(recorded)

    @classmethod
    def of(cls, setting: str) -> ReplayedModel | None:
        """Read the setting; None if the model itself answers. Raises ``SettingsError``."""
        if not setting:
            return None
        try:
            return cls(decode(setting, type=ReplayDocument))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise SettingsError(
                f"AUDIT_MODEL: the replies of the clean run cannot be read: {error}"
            ) from None

    def replays(self, link: str, episode: str) -> bool:
        """Whether requests on that link may still get recorded replies."""
        return link in self._document.links and episode not in self._struck

    def note_fault(self, episode: str) -> None:
        """A fault acts in the episode: the model itself answers from the next request on."""
        self._struck.add(episode)

    def next_reply(self, link: str, request: Request) -> Reply | None:
        """Return the recorded reply to that request; None without one, or if it may be about another id."""
        key, words = _masked(request)
        recorded = self._recorded[link, key]
        if not recorded:
            return None
        first = recorded.popleft()
        differing = {old for old, new in zip(first.words, words, strict=True) if old != new}
        return None if any(word in _content(first) for word in differing) else first.reply

    def recording(self, link: str, dialect: str, usual: Endpoint) -> Endpoint:
        """Return the model's endpoint, recorded in the clean run."""
        if self._document.mode != "record":
            return usual
        return replace(usual, recorder=_ModelRecorder(Path(self._document.file), link, dialect))


def replayed(usual: Endpoint, reply: Reply) -> Endpoint:
    """Return an endpoint that gives the reply in the model's place."""
    return Endpoint("", 0, usual.authority, is_lab=False, player=_OneReply(reply))


class _OneReply:
    """Implements ``Player``."""

    not_recorded = ""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def next_reply(self, request: Request) -> Reply | None:
        return self._reply


class _ModelRecorder:
    """Appends each reply of the model to the file. Implements ``Recorder``."""

    keeps_errors = False

    def __init__(self, file: Path, link: str, dialect: str) -> None:
        self._file, self._link, self._dialect = file, link, dialect
        self.failure = ""

    def ask(self, request: Request) -> Callable[[Reply], None]:
        key, words = _masked(request)

        def keep(reply: Reply) -> None:
            row = {
                "link": self._link,
                "key": key,
                "words": words,
                "dialect": self._dialect,
                "status": reply.status,
                "headers": [["Content-Type", reply.header("content-type")]],
                "body": base64.b64encode(reply.body).decode(),
            }
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

        return keep


def _masked(request: Request) -> tuple[str, list[str]]:
    """Return a digest of the request without the words that may differ between runs, and these words."""
    body = canonical_request(request)["body"]
    model = body.pop("model", None) if isinstance(body, dict) else None
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    operation = request.path.rpartition("/")[2]
    masked = json.dumps([operation, model, _VARYING.sub("#", text)])
    return text_digest(masked, size=16).hex(), _VARYING.findall(text)


def _content(recorded: _Recorded) -> str:
    """Return what the model said, or the whole reply if it cannot be read."""
    reply = recorded.reply
    dialect = MODEL_DIALECTS.get(recorded.dialect)
    if dialect is not None:
        try:
            events = list(reply.events())
            value = dialect.collect(events) if events else parsed(reply.body)
            return json.dumps(dialect.read_reply(as_object(value)).as_json(), ensure_ascii=False)
        except (ValueError, LookupError, TypeError):
            pass
    return reply.body.decode("utf-8", "replace")


def _headers(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(value)) for name, value in row["headers"])


def _read(document: ReplayDocument) -> list[Mapping[str, Any]]:
    """Return the replies that are known; the model itself gives all others."""
    files = [Path(name) for name in (document.file, document.copy) if name]
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "body" in row]
