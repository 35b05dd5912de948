"""Compare two requests by method, path and body, without their generated parts. Pure.

Generated parts differ when a client sends a request again: generated ids, the time of sending, and fields by
which a server recognizes a repetition. An id that the client received before (in a tool's reply or in its
prompt) refers to an object, so it is compared. So is a time that is not the time of sending: two appointments
are two writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl

from wirefault.core.identity import text_digest
from wirefault.dialects.mcp import read_message

_LEFT_OUT = "*"
# Names of fields, without case, `_` and `-`.
_KEY_FIELD = re.compile(r"idempotency\w*|(message)?dedup\w*|client(request)?token")
_REPETITION_FIELD = re.compile(
    rf"{_KEY_FIELD.pattern}|x?request(id|key|token|uuid)|uniquerequestid|correlationid|traceid|spanid|traceparent"
    r"|nonce|salt|random|rand|cachebuster|csrf\w*|xsrf\w*|(request)?verificationtoken|authenticitytoken"
    r"|hmac|checksum|((xamz|xgoog)?(signature|credential|securitytoken)|sig)|client(order|msg|message)id|client(ref|reference)|attempts?|attempt(no|number)|tries|retry|retries"
    r"|retry(count|attempt)"
)
_CLOCK_FIELD = re.compile(
    r"timestamp|ts|now|(created|updated|sent|requested|submitted|issued|occurred|ordered|placed)at|created(on)?"
    r"|(send|request|event|client)time"
)
# Words in names of fields. These refer to an object that already exists, whatever its id looks like.
_REFERENCE_WORDS = {"sku", "product", "item", "customer", "user", "account", "asin", "isbn", "file"}
# A place in a list, or another object of the same kind. Such an id comes from a reply.
_PLACE_FIELD = re.compile(
    r"\w*cursor|(next|page|continuation|sync|scroll|starting)(page|token|id|after)?|pagetoken|after|before|offset"
    r"|since|parent\w*|inreplyto|reply\w*|thread\w*"
)
_ID_WORDS = {"id", "uuid", "guid", "ulid", "uid", "ref", "reference"}
_OWN_WORDS = re.compile(
    r"client|message|transaction|request|operation|event|external|job|task|order|payment|new|own|my"
)
_UUID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[1-8][0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}\b", re.I)
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_HEX = re.compile(r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{16,}", re.I)
# A prefix, then mixed letters and digits: ord_9f3kq82d, o-1764120000123
_TOKEN = re.compile(
    r"(?:[A-Za-z]+[-_.:])*(?:\d{10,}|(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{6,})"
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", re.I)
_EPOCH = re.compile(r"\d{10,16}(?:\.\d{1,9})?")
_HTTP_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|[+-]\d{4})")
_MIN_OWN_NUMBER = 10_000  # a smaller number may be a count, or a number from the user
_SAME_TIME_S = 600.0
_BOUNDARY = re.compile(r"--([^\s]{6,70})\r?\n")
_FORM_PART = re.compile(r'; name="([^"]+)"\r?\n\r?\n([^\r\n]*)\r?\n--')
_INNER = ("params", "variables", "input")


@dataclass(frozen=True)
class Wanted:
    """The compared parts of a request. ``tool``: the MCP tool that it calls."""

    link: str
    method: str
    target: str
    tool: str
    body: str | None  # None if the history does not have the whole body
    at: float  # seconds since the epoch
    key_field: str = ""  # the field by which the upstream recognizes a repetition
    all_received: bool = True  # whether the history has every reply that the client received before


def same_digest(wanted: Wanted, fingerprint: str, is_known: Callable[[str], bool]) -> str:
    """A digest that is equal for requests that ask for the same.

    ``is_known``: whether the client may have received an id before, and so did not generate it. A body that
    the history does not have is compared by its ``fingerprint``, with generated parts.
    """
    mask = _Mask(wanted, is_known)
    if wanted.body is None:
        return text_digest(f"{wanted.link} {wanted.method} {fingerprint}").hex()
    if wanted.tool:
        message = read_message(wanted.body.encode())
        what = [wanted.tool, mask.value(message.arguments if message else wanted.body)]
    else:
        path, _, query = wanted.target.partition("?")
        pairs = sorted((name, mask.text(name, value)) for name, value in parse_qsl(query, True))
        what = [mask.path(path), pairs, mask.body(wanted.body)]
    canonical = json.dumps([wanted.link, wanted.method.upper(), what], sort_keys=True)
    return text_digest(canonical).hex()


def idempotency_field(body: str | None, tool: str = "") -> str:
    """The value of the first field in the body, or in the arguments, whose name means an idempotency key.

    The body is JSON (of JSON-RPC its parameters count, of GraphQL its variables) or a form.
    """
    keys = (value for name, value in _fields_in(body or "", tool) if _KEY_FIELD.fullmatch(_plain(name)))
    return next((str(key) for key in keys if isinstance(key, str | int) and key), "")


def _fields_in(body: str, tool: str) -> Iterator[tuple[str, Any]]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        yield from _FORM_PART.findall(body) if _BOUNDARY.match(body) else parse_qsl(body)
        return
    if tool and isinstance(value, dict) and isinstance(value.get("params"), dict):
        value = value["params"].get("arguments")
    while isinstance(value, dict):
        yield from value.items()
        inner = (value.get(name) for name in _INNER)
        value = next((each for each in inner if isinstance(each, dict)), None)


def without_call_ids(body: str) -> str:
    """A model request's body without the ids of its tool calls, which a provider generates for each reply."""
    return re.sub(r'"((?:tool_)?(?:call_|use_)?id)"\s*:\s*"[^"]*"', r'"\1": "*"', body)


class _Mask:
    """Masks the generated parts of a request."""

    def __init__(self, wanted: Wanted, is_known: Callable[[str], bool]) -> None:
        self._at, self._is_known, self._all_received = wanted.at, is_known, wanted.all_received
        self._key_field = _plain(wanted.key_field)
        words = re.findall(r"[a-z]+", wanted.target.partition("?")[0].lower())
        self._resources = {word.rstrip("s") for word in words}

    def path(self, path: str) -> str:
        return "/".join(self._ids_left_out(part) for part in path.split("/"))

    def body(self, body: str) -> Any:
        try:
            value = json.loads(body)
            return self.value(
                [_without_rpc_id(each) for each in value]
                if isinstance(value, list)
                else _without_rpc_id(value)
            )
        except (ValueError, RecursionError):
            pass
        boundary = _BOUNDARY.match(body)
        if boundary:
            return self._ids_left_out(body.replace(boundary[1], _LEFT_OUT))
        form = parse_qsl(body, keep_blank_values=True) if "=" in body and "\n" not in body else []
        return [(name, self.text(name, text)) for name, text in sorted(form)] or self._times_left_out(
            self._ids_left_out(body)
        )

    def value(self, value: Any, name: str = "") -> Any:
        if self._is_left_out(name):
            return _LEFT_OUT
        match value:
            case dict():
                return {key: self.value(member, key) for key, member in value.items()}
            case list():
                return [self.value(member, name) for member in value]
            case str():
                return self.text(name, value)
            case int() | float() if not isinstance(value, bool) and self._is_generated_number(name, value):
                return _LEFT_OUT
        return value

    def text(self, name: str, text: str) -> str:
        if self._is_left_out(name) or self._is_generated(name, text):
            return _LEFT_OUT
        if _CLOCK_FIELD.fullmatch(_plain(name)) and (
            _ISO.fullmatch(text.strip()) or text.strip().isdecimal()
        ):
            return _LEFT_OUT
        if _EPOCH.fullmatch(text) and self._is_clock(name, float(text)):
            return _LEFT_OUT
        return self._times_left_out(text if _names_a_thing(name) else self._ids_left_out(text))

    def _is_left_out(self, name: str) -> bool:
        plain = _plain(name)
        return _REPETITION_FIELD.fullmatch(plain) is not None or (plain != "" and plain == self._key_field)

    def _is_generated(self, name: str, text: str) -> bool:
        """Whether it is the request's own id, generated by the client."""
        if not text or self._is_known(text) or _names_a_thing(name):
            return False
        own = self._is_own_id(name)
        if _ULID.fullmatch(text) or _HEX.fullmatch(text):
            return own or self._all_received
        return own and (_TOKEN.fullmatch(text) is not None or _UUID.fullmatch(text) is not None)

    def _is_own_id(self, name: str) -> bool:
        """Whether a field of that name identifies the written object: in `POST /orders`, `id` and `order_id`
        do, but `product_id` does not."""
        words = _words(name)
        own = all(_OWN_WORDS.fullmatch(word) or word in self._resources for word in words[:-1])
        return bool(words) and words[-1] in _ID_WORDS and own

    def _is_generated_number(self, name: str, number: float) -> bool:
        own = self._is_own_id(name) and not _names_a_thing(name) and number >= _MIN_OWN_NUMBER
        return (own and not self._is_known(str(number))) or self._is_clock(name, number)

    def _is_clock(self, name: str, number: float) -> bool:
        """Whether it is the time of sending, in seconds, milliseconds or microseconds."""
        near = any(abs(number / unit - self._at) < _SAME_TIME_S for unit in (1, 1e3, 1e6))
        return near or (number > 1e8 and _CLOCK_FIELD.fullmatch(_plain(name)) is not None)

    def _ids_left_out(self, text: str) -> str:
        if not self._all_received:  # it may be in a reply that the history does not have
            return text
        return _UUID.sub(lambda match: match[0] if self._is_known(match[0]) else _LEFT_OUT, text)

    def _times_left_out(self, text: str) -> str:
        for form in (_ISO, _HTTP_DATE):
            text = form.sub(lambda match: _LEFT_OUT if self._is_now(match[0]) else match[0], text)
        return text

    def _is_now(self, text: str) -> bool:
        try:
            moment = (
                parsedate_to_datetime(text)
                if _HTTP_DATE.fullmatch(text)
                else datetime.fromisoformat(text.upper().replace("Z", "+00:00").replace(",", "."))
            )
        except ValueError:
            return False
        return abs(moment.timestamp() - self._at) < _SAME_TIME_S


def _without_rpc_id(value: Any) -> Any:
    """A JSON-RPC message without its id, which only pairs it with its reply."""
    if isinstance(value, dict) and "jsonrpc" in value and "method" in value:
        return {name: member for name, member in value.items() if name != "id"}
    return value


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _names_a_thing(name: str) -> bool:
    """Whether a field of that name has the id of another object: `sku`, `product_id`, `cursor`."""
    words = _words(name)
    return bool(words) and (words[0] in _REFERENCE_WORDS or _PLACE_FIELD.fullmatch(_plain(name)) is not None)


def _words(name: str) -> list[str]:
    """The words of a name in snake case or camel case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
