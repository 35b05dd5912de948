"""What an exchange's record says of the wire beyond how far it came, where it says anything at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from json.encoder import encode_basestring as _quote
from urllib.parse import parse_qs

from pydantic_core import from_json

from windtunnel.core.digest import text_digest
from windtunnel.gateway.connection.bodies import SECRET, BodyStart, kept_text
from windtunnel.gateway.connection.request_in_progress import RequestInProgress
from windtunnel.gateway.lane import LinkListener
from windtunnel.links.link import Link

_KEY = b"idempotency-key"
_CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")
_RETRY_COUNTS = (b"x-stainless-retry-count", b"amz-sdk-request")
_ENCODING = b"content-encoding"
_NOTED = frozenset((_KEY, _ENCODING, *_CREDENTIALS, *_RETRY_COUNTS))
_INITIALS = frozenset(b"iIaAxXcC")  # of those names: most lines are left at a glance
_IN_QUERY = "key="
_MIN_SECRET = 8
_LARGEST_ID = 10**40  # Python writes out no number of some thousand digits


def wire_fields(request: RequestInProgress, listener: LinkListener) -> str:
    """Members of ``Exchange``, as JSON, that are not as it has them by default; a comma before each."""
    return "".join(_fields(request, listener))


def _fields(request: RequestInProgress, listener: LinkListener) -> Iterator[str]:
    link, head, said = listener.link, request.head, _noted_headers(request.head.lines)
    yield f',"dialect":"{link.dialect}"'
    if link.writes and link.is_write(head.method, head.target):
        yield ',"write":true'
        key = said.get(_KEY) or _key_in_body(request, link)
        if key:
            yield f',"key":{_quote(key)}'
    secret = _credential(said, head.target)
    if secret:
        yield f',"credential":"{text_digest(secret).hex()}"'
    retried = _retries(said) if said else 0
    if retried:
        yield f',"sdk_retry":{retried}'
    yield from _of_reply(request)
    if request.run is not None and request.run.keeps_bodies:
        yield from _bodies(request, said.get(_ENCODING, ""), listener, secret)


def _noted_headers(lines: list[bytes]) -> dict[bytes, str]:
    """The headers that the record speaks of, by their names in lower case."""
    noted = {}
    for line in lines[1:]:
        if line and line[0] in _INITIALS:
            name, _, value = line.partition(b":")
            if name.lower() in _NOTED:
                noted[name.lower()] = value.decode("latin-1").strip()
    return noted


def _key_in_body(request: RequestInProgress, link: Link) -> str:
    """The field of the JSON body that the wiring names; empty without one, or if the body is too long."""
    start = request.body_start
    if not link.key or start is None or start.cut:
        return ""
    try:
        body = from_json(bytes(start))
    except ValueError:
        return ""
    value = body.get(link.key) if isinstance(body, dict) else None
    if isinstance(value, str):
        return value
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID
    return str(value) if is_id else ""


def _credential(said: dict[bytes, str], target: str) -> str:
    """What the client authorises itself with, without the word for its kind; empty without any."""
    for name in _CREDENTIALS:
        if said.get(name):
            return said[name].rpartition(" ")[2]
    if _IN_QUERY in target:
        return parse_qs(target.partition("?")[2]).get("key", [""])[0]
    return ""


def _retries(said: dict[bytes, str]) -> int:
    """How often the client's SDK says that it has sent the request before."""
    stainless, amazon = (said.get(name, "") for name in _RETRY_COUNTS)
    if stainless.isdecimal():
        return int(stainless[:4])
    attempt = amazon.partition("attempt=")[2].partition(";")[0].strip()
    return max(int(attempt[:4]) - 1, 0) if attempt.isdecimal() else 0


def _of_reply(request: RequestInProgress) -> Iterator[str]:
    status = request.upstream_status
    if status is not None and status != request.status:
        yield f',"upstream_status":{status}'
    block = request.reply_block
    if request.status is not None and request.status >= 300 and b"etry-" in block.lower():
        seconds = _retry_after(_noted_reply(block), time.time())
        if seconds is not None:
            yield f',"retry_after":{seconds:g}'


def _noted_reply(block: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in block.decode("latin-1").split("\r\n"))
    return {name.lower(): value.strip() for name, _, value in lines}


def _retry_after(headers: dict[str, str], now: float) -> float | None:
    """In seconds, as a number or as a date says them; ``retry-after-ms`` says it more exactly."""
    exact, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    try:
        seconds = float(exact) / 1000 if exact else float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, TypeError, OverflowError):  # what a server sends may be no date, or none of ours
            return None
    return min(max(seconds, 0.0), 1e9) if seconds == seconds else None


def _bodies(request: RequestInProgress, encoding: str, listener: LinkListener, secret: str) -> Iterator[str]:
    def redact(text: str) -> str:
        text = listener.redact(text)
        return text.replace(secret, SECRET) if len(secret) >= _MIN_SECRET else text

    text, cut = kept_text(request.body_start or BodyStart(), encoding.lower(), redact)
    yield f',"request_body":{_quote(text)}'
    if cut or not request.request_done:
        yield ',"request_cut":true'
    if request.reply_start is not None and request.status is not None:
        of_reply = _noted_reply(request.reply_block) if b"ncoding" in request.reply_block else {}
        text, cut = kept_text(request.reply_start, of_reply.get("content-encoding", "").lower(), redact)
        yield f',"reply_body":{_quote(text)}'
        if cut or not request.reply_done:
            yield ',"reply_cut":true'
