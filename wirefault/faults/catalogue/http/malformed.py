"""malformed: the body is not what a parser expects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from wirefault.core.draws import choose
from wirefault.dialects.base import html_reply
from wirefault.dialects.http import Reply, dump_json
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.http.edit import replace_reply, with_type

_Kind = Literal[
    "cut_json", "trailing_comma", "html", "content_type", "bom", "latin1", "double_encoding", "nul"
]


class Malformed(Fault):
    """The reply arrives whole, but its body is broken.

    Kinds: ``cut_json`` (its last quarter is missing), ``trailing_comma``, ``html`` (a proxy's page with
    status 200), ``content_type`` (JSON that calls itself a web page), ``bom`` (a byte order mark before
    it), ``latin1`` (in another encoding than it claims; needs a letter beyond ASCII), ``double_encoding``
    (the JSON as one JSON string), ``nul`` (NUL bytes in the middle). Without a kind, one is drawn for each
    try from those that change this reply. Length and framing are right, and the upstream has executed the
    request: only a client that checks what it parses notices.
    """

    name = "malformed"
    family = "http"
    mcp_view = "message"
    can_cause = frozenset({"bad_reply"})

    kind: _Kind | None = Field(None, description="how it is broken; without it, drawn for each try")

    def act(self, tried: Try) -> Act:
        return Act(reply=lambda reply: self._broken(tried, reply))

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


def _json_text(reply: Reply) -> str | None:
    """The body as JSON text without escapes, None where it is no JSON."""
    try:
        return json.dumps(reply.json(), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def _unparsable(reply: Reply, body: bytes) -> Reply | None:
    """The reply with that body if it is no JSON."""
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
