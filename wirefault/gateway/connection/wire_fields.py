"""What an exchange's record says of the wire beyond how far it came, where it says anything at all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from json.encoder import encode_basestring as _quote
from urllib.parse import parse_qs

from pydantic_core import from_json

from wirefault.core.digest import text_digest
from wirefault.dialects.json_values import as_object
from wirefault.dialects.mcp import MCP, McpMessage
from wirefault.gateway.connection.bodies import SECRET, BodyStart, kept_text
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.connection.struck_reply import struck_field
from wirefault.gateway.http1.heads import CONTENT_ENCODING, CREDENTIALS, IDEMPOTENCY_KEY, RETRY_COUNTS
from wirefault.gateway.http1.messages import content_encoding
from wirefault.gateway.link_listener import LinkListener
from wirefault.wiring.link import Link

_IN_QUERY = "key="
_OF_MCP = f',"dialect":"{MCP.name}"'
_MIN_SECRET = 8
_NOTABLE_S = 0.01
_LARGEST_ID = 10**40  # Python writes out no number of some thousand digits


def wire_fields(request: RequestInProgress, listener: LinkListener) -> str:
    """Members of ``Exchange``, as JSON, that are not as it has them by default; a comma before each."""
    head, status = request.head, request.status
    # of most requests only the dialect is said, and that is the same for all of their link
    of_mcp = request.may_be_mcp and request.message is not None
    fields = _OF_MCP if of_mcp else listener.dialect_field
    if request.message:
        fields += _of_message(request.message, request)
    if request.request_done and request.whole_at - request.began >= _NOTABLE_S:
        fields += f',"request_ms":{(request.whole_at - request.began) * 1000:.3f}'
    if request.tls:
        fields += f',"tls":"{request.tls}"'
    if listener.link.writes:
        fields += _of_write(request, listener.link)
    if head.noted or _IN_QUERY in head.target:
        fields += _of_client(head.noted, _secret(request))
    if status != request.upstream_status or (status is not None and status >= 300):
        fields += "".join(_of_reply(request))
    if request.shadows:
        shadows = json.dumps([asdict(shadow) for shadow in request.shadows], ensure_ascii=False)
        fields += f',"shadows":{shadows}'
    keeps_bodies = request.run is not None and request.run.keeps_bodies
    if keeps_bodies or request.plan is not None or request.reply_start is not None:
        redact = redaction(request, listener)
        if keeps_bodies:
            fields += "".join(_bodies(request, head.noted.get(CONTENT_ENCODING, ""), redact))
        fields += struck_field(request, redact)
    return fields


def _of_message(method: str, request: RequestInProgress) -> str:
    fields = f',"message":{_quote(method)}'
    if request.tool:
        fields += f',"tool":{_quote(request.tool)}'
        answer = request.server_reply.tool_answer if request.server_reply else ""
        fields += f',"tool_answer":"{answer}"' if answer else ""
    return fields


def _of_write(request: RequestInProgress, link: Link) -> str:
    head = request.head
    if not link.is_write(head.method, head.target, request.tool):
        return ""
    key = head.noted.get(IDEMPOTENCY_KEY) or _key_in_body(request, link)
    return f',"write":true,"key":{_quote(key)}' if key else ',"write":true'


def _of_client(noted: Mapping[bytes, str], secret: str) -> str:
    fields = f',"credential":"{text_digest(secret).hex()}"' if secret else ""
    retried = _retries(noted)
    return f'{fields},"sdk_retry":{retried}' if retried else fields


def _key_in_body(request: RequestInProgress, link: Link) -> str:
    """The field of the JSON body that the wiring names; empty without one, or if the body is too long."""
    start = request.body_start
    if not link.key or start is None or start.cut:
        return ""
    try:
        body = from_json(bytes(start))
    except ValueError:
        return ""
    if request.tool:
        body = McpMessage("request", as_object(body)).arguments
    value = body.get(link.key) if isinstance(body, dict) else None
    if isinstance(value, str):
        return value
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID
    return str(value) if is_id else ""


def _credential(noted: Mapping[bytes, str], target: str) -> str:
    """What the client authorises itself with, without the word for its kind; empty without any."""
    for name in CREDENTIALS:
        if noted.get(name):
            return noted[name].rpartition(" ")[2]
    if _IN_QUERY in target:
        return parse_qs(target.partition("?")[2]).get("key", [""])[0]
    return ""


def _retries(noted: Mapping[bytes, str]) -> int:
    """How often the client's SDK says that it has sent the request before."""
    stainless, amazon = (noted.get(name, "") for name in RETRY_COUNTS)
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


def redaction(request: RequestInProgress, listener: LinkListener) -> Callable[[str], str]:
    """Takes the keys that the lab knows out of a text, and what the client authorised itself with."""
    secret = _secret(request)

    def redact(text: str) -> str:
        text = listener.redact(text)
        return text.replace(secret, SECRET) if len(secret) >= _MIN_SECRET else text

    return redact


def _secret(request: RequestInProgress) -> str:
    head = request.head
    return _credential(head.noted, head.target) if head.noted or _IN_QUERY in head.target else ""


def _bodies(request: RequestInProgress, encoding: str, redact: Callable[[str], str]) -> Iterator[str]:
    text, cut = kept_text(request.body_start or BodyStart(), encoding.lower(), redact)
    yield f',"request_body":{_quote(text)}'
    if cut or not request.request_done:
        yield ',"request_cut":true'
    if request.reply_start is not None and request.status is not None:
        text, cut = kept_text(request.reply_start, content_encoding(request.reply_block), redact)
        yield f',"reply_body":{_quote(text)}'
        if cut or not request.reply_done:
            yield ',"reply_cut":true'
