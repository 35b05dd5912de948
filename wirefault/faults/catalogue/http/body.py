"""Faults of a reply's body (truncate, slow_body, empty, malformed), and editing of replies."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.core.identity import choose
from wirefault.dialects.base import html_reply
from wirefault.dialects.http import Reply, ReplyInPieces, dump_json, slow_pieces
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, evidence_text

# Faults do not look deeper: replies of that shape are attacks.
_MAX_DEPTH = 48


@dataclass(frozen=True)
class JsonEdit:
    """A reply's new JSON value, and evidence of the change."""

    value: Any
    evidence: Mapping[str, Any] = field(default_factory=dict)


def edit_json(reply: Reply, edit: Callable[[Any], JsonEdit | Miss]) -> Changed | Miss:
    """Change the reply's JSON; ``unreadable`` without JSON."""
    try:
        value = reply.json()
    except ValueError:
        return Miss("unreadable")
    try:
        done = edit(value)
        return done if isinstance(done, Miss) else Changed(reply.with_json(done.value), done.evidence)
    except RecursionError:  # readable, but too deep to be written again
        return Miss("unreadable")


def replace_reply(before: Reply, after: Reply, **evidence: Any) -> Changed | Miss:
    """Replace ``before`` by ``after``, with both bodies as evidence; a miss if they are equal."""
    if after == before:
        return Miss("nothing_to_change")
    if after.body != before.body:
        evidence |= {"original": evidence_text(before.body), "changed": evidence_text(after.body)}
    return Changed(after, evidence)


def with_type(reply: Reply, content_type: str) -> Reply:
    """The reply with another Content-Type."""
    others = tuple((name, value) for name, value in reply.headers if name.lower() != "content-type")
    return replace(reply, headers=(("Content-Type", content_type), *others))


def has_body(tried: Try, reply: Reply) -> bool:
    """Whether a client reads a body of this reply."""
    return tried.request.method != "HEAD" and reply.status not in (204, 304) and reply.status >= 200


def with_gzip(tried: Try, reply: Reply) -> Reply | None:
    """The compressed reply, by gzip if the upstream has not; None if the client does not accept that."""
    if reply.header("content-encoding") not in ("", "identity"):
        return reply
    accepted = [one.partition(";")[0].strip() for one in tried.request.header("accept-encoding").split(",")]
    if "gzip" not in accepted or not reply.body:
        return None
    plain = without_header(reply, "content-encoding")
    headers = (*plain.headers, ("Content-Encoding", "gzip"))
    return replace(plain, headers=headers, body=gzip.compress(reply.body, mtime=0))


def without_header(reply: Reply, name: str) -> Reply:
    """The reply without that header."""
    return replace(reply, headers=tuple(one for one in reply.headers if one[0].lower() != name))


def objects_in(
    value: Any, path: tuple[str, ...] = (), depth: int = _MAX_DEPTH
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every object in a JSON value, with the path of field names to it. Lists add no name."""
    children: Iterable[tuple[tuple[str, ...], Any]] = ()
    if isinstance(value, dict):
        yield path, value
        children = (((*path, name), inner) for name, inner in value.items())
    elif isinstance(value, list):
        children = ((path, item) for item in value)
    for inner_path, inner in children if depth else ():
        yield from objects_in(inner, inner_path, depth - 1)


_EMPTY_BODIES = {"body": b"", "object": b"{}", "array": b"[]", "null": b"null"}


class Truncate(Fault):
    """Cut off the reply's body, at a byte or a fraction of its length.

    With ``content_length: kept`` the header still claims the full length and the connection closes: most
    clients report this, old ones accept the partial body. With ``corrected`` the cut body is a valid HTTP
    reply, and only a parser can notice. With ``compressed`` it cuts the compressed body and does not
    unpack it; it applies gzip if the upstream has not compressed the body and the client accepts that. The
    upstream has executed the request.
    """

    name = "truncate"
    family = "http"
    can_cause = CLOSED | {"bad_reply"}

    fraction: float = Field(0.5, ge=0, lt=1, description="share of the body that is sent")
    at_byte: int | None = Field(None, ge=0, description="number of bytes that are sent; overrides fraction")
    content_length: Literal["kept", "corrected"] = Field("kept", description="the Content-Length header")
    compressed: bool = Field(False, description="cut the compressed body")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.content_length == "kept" else self.can_cause - CLOSED

    def act(self, tried: Try) -> Act | Miss:
        if not self.compressed:
            return Act(reply=self._cut)
        if tried.lines:
            return Miss("not_in_dialect")
        return Act(reply=partial(self._cut_packed, tried), packed=True)

    def _cut_packed(self, tried: Try, reply: Reply) -> Changed | Miss:
        packed = with_gzip(tried, reply)
        if packed is None or not has_body(tried, reply):
            return Miss("nothing_to_change")
        cut = self._cut(packed)
        encoding = {"content_encoding": packed.header("content-encoding")}
        return cut if isinstance(cut, Miss) else replace(cut, evidence={**cut.evidence, **encoding})

    def _cut(self, reply: Reply) -> Changed | Miss:
        size = len(reply.body)
        at = int(size * self.fraction) if self.at_byte is None else self.at_byte
        if at >= size:
            return Miss("nothing_to_change")
        evidence = {"cut_at": at, "of": size}
        if self.content_length == "corrected":
            return Changed(reply.with_body(reply.body[:at]), evidence)
        return Changed(ReplyInPieces(reply, (reply.body[:at],), length=size), evidence)


class SlowBody(Fault):
    """Send the headers at once and the body slowly, in pieces.

    The whole body arrives in the end. A timeout per read (``requests``, ``httpx``) never fires while pieces
    keep coming; only a deadline for the whole call helps. The upstream has executed the request.
    """

    name = "slow_body"
    family = "http"
    can_cause = TIMEOUT

    bytes_per_second: float = Field(500, gt=0, le=1e9, description="bytes of the body per second")
    keep_chunks: bool = Field(
        False, description="keep the chunks and trailers of the upstream; default: a Content-Length header"
    )

    def act(self, tried: Try) -> Act:
        return Act(reply=lambda reply: self._slowed(tried, reply))

    def _slowed(self, tried: Try, reply: Reply) -> Changed | Miss:
        if not reply.body or not has_body(tried, reply):
            return Miss("nothing_to_change")
        body = reply.body
        pieces = slow_pieces(body, self.bytes_per_second)
        delay_ms = round(len(body) / self.bytes_per_second * 1000, 3)
        evidence = {"bytes": len(body), "pieces": len(pieces) // 2, "delay_ms": delay_ms}
        if self.keep_chunks and not tried.lines:
            return Changed(reply, {**evidence, "keep_chunks": True}, pace=self.bytes_per_second)
        return Changed(ReplyInPieces(reply, pieces, "keep", len(body)), evidence)


class Empty(Fault):
    """Empty the reply's body; status and headers stay.

    ``body``: no body at all; ``object``, ``array``, ``null``: ``{}``, ``[]`` or ``null``. The upstream has
    executed the request. Most clients notice only when they read the first field.
    """

    name = "empty"
    family = "http"
    can_cause = frozenset({"bad_reply"})

    kind: Literal["body", "object", "array", "null"] = Field("body", description="the new body")

    def act(self, tried: Try) -> Act:
        return Act(reply=self._emptied)

    def _emptied(self, reply: Reply) -> Changed | Miss:
        if not reply.body:
            return Miss("nothing_to_change")
        return replace_reply(reply, reply.with_body(_EMPTY_BODIES[self.kind]), kind=self.kind)


_Kind = Literal[
    "cut_json",
    "trailing_comma",
    "html",
    "content_type",
    "bom",
    "latin1",
    "double_encoding",
    "nul",
    "content_encoding",
]


class Malformed(Fault):
    """Break the reply's body; length and framing stay correct.

    Kinds: ``cut_json`` (the last quarter is missing), ``trailing_comma``, ``html`` (a proxy's page with
    status 200), ``content_type`` (JSON labelled as a web page), ``bom`` (a byte order mark in front),
    ``latin1`` (an encoding other than declared; needs a non-ASCII letter), ``double_encoding`` (the JSON as
    one JSON string), ``nul`` (NUL bytes in the middle), ``content_encoding`` (a compressed body without its
    Content-Encoding, or a plain one labelled as gzip; never drawn). Without a kind, one is drawn for each try
    from those that change this reply. The upstream has executed the request; only a client that validates its
    input notices.
    """

    name = "malformed"
    family = "http"
    mcp_view = "message"
    can_cause = frozenset({"bad_reply"})

    kind: _Kind | None = Field(None, description="the defect; default: drawn for each try")

    def act(self, tried: Try) -> Act | Miss:
        if self.kind != "content_encoding":
            return Act(reply=lambda reply: self._broken(tried, reply))
        if tried.lines or tried.dialect == "mcp":  # whose message this family sees, without its headers
            return Miss("not_in_dialect")
        return Act(reply=partial(_mislabelled, tried), packed=True)

    def _broken(self, tried: Try, reply: Reply) -> Changed | Miss:
        if not reply.body:
            return Miss("nothing_to_change")
        kinds = KINDS if self.kind is None else {self.kind: KINDS[self.kind]}
        results = {kind: break_(reply) for kind, break_ in kinds.items()}
        broken = {kind: result for kind, result in results.items() if result and result != reply}
        if not broken:
            return Miss("nothing_to_change" if _json_text(reply) is not None else "unreadable")
        kind = choose(tried.chance("kind"), tuple(broken))
        result = broken[kind]
        return replace_reply(reply, result, kind=kind, bytes=len(result.body), of=len(reply.body))


def _mislabelled(tried: Try, reply: Reply) -> Changed | Miss:
    if not has_body(tried, reply) or not reply.body:
        return Miss("nothing_to_change")
    label = reply.header("content-encoding")
    plain = without_header(reply, "content-encoding")
    is_packed = label not in ("", "identity")
    wrong = plain if is_packed else replace(plain, headers=(*plain.headers, ("Content-Encoding", "gzip")))
    evidence = {"original": label, "changed": wrong.header("content-encoding")}
    return Changed(wrong, {"kind": "content_encoding", **evidence})


def _json_text(reply: Reply) -> str | None:
    """The body as JSON text without escapes; None if it is not JSON."""
    try:
        return json.dumps(reply.json(), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def _unparsable(reply: Reply, body: bytes) -> Reply | None:
    """The reply with that body, if the body is not JSON."""
    result = reply.with_body(body)
    return result if _json_text(result) is None else None


def _cut_json(reply: Reply) -> Reply | None:
    body = reply.body.rstrip()
    return None if _json_text(reply) is None else _unparsable(reply, body[: len(body) * 3 // 4])


def _trailing_comma(reply: Reply) -> Reply | None:
    if _json_text(reply) is None:
        return None
    body = reply.body.rstrip()
    end = len(body) - 1 if body[-1:] in (b"}", b"]") else len(body)
    return _unparsable(reply, body[:end] + b"," + body[end:])


def _html(reply: Reply) -> Reply:
    page = html_reply(200, "OK")
    return replace(with_type(reply, page.header("content-type")), body=page.body, status=200, reason="")


def _content_type(reply: Reply) -> Reply:
    is_page = reply.header("content-type").lower().startswith("text/html")
    return with_type(reply, "application/octet-stream" if is_page else "text/html; charset=utf-8")


def _bom(reply: Reply) -> Reply:
    return reply.with_body(b"\xef\xbb\xbf" + reply.body)


def _latin1(reply: Reply) -> Reply | None:
    text = _json_text(reply)
    if text is None or text.isascii():
        return None
    body = text.encode("latin-1", "replace")
    return None if body.isascii() else reply.with_body(body)


def _double_encoding(reply: Reply) -> Reply | None:
    text = _json_text(reply)
    return None if text is None else reply.with_body(dump_json(text))


def _nul(reply: Reply) -> Reply:
    middle = len(reply.body) // 2
    return reply.with_body(reply.body[:middle] + b"\0\0\0" + reply.body[middle:])


KINDS: Mapping[_Kind, Callable[[Reply], Reply | None]] = {
    "cut_json": _cut_json,
    "trailing_comma": _trailing_comma,
    "html": _html,
    "content_type": _content_type,
    "bom": _bom,
    "latin1": _latin1,
    "double_encoding": _double_encoding,
    "nul": _nul,
}
