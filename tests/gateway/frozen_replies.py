"""Digests of the wire bytes of each catalogue fault, for each kind of link.

python -m tests.gateway.frozen_replies            write the digests anew
python -m tests.gateway.frozen_replies FOLDER     write what was digested, to compare two versions
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from tests.dialects.forms import CALL, CALLS, FINAL, FORMS, TEXT
from tests.gateway.in_memory import over_http, over_lines
from tests.upstream import whole
from wirefault.core.errors import InputError
from wirefault.dialects.http import Reply, Request, chunk, json_reply, write_event
from wirefault.faults.base import Fault
from wirefault.faults.catalogue import FAULTS
from wirefault.wiring.links import STDIO, Link

TABLE = Path(__file__).with_name("frozen_replies.json")
Talk = Sequence[tuple[bytes, bytes]]

WEATHER = {"city": "Zürich", "temperature": 21.5, "unit": "celsius", "days": [{"day": 1}, {"day": 2}]}
BILL = {"order": "A-17", "total": 42.0, "currency": "EUR", "status": "paid", "date": "2026-05-04"}


def _encoded(request: Request) -> bytes:
    lines = [f"{request.method} {request.target} HTTP/1.1", "Host: x"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    lines += [f"Content-Length: {len(request.body)}"] if request.body else []
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def _sized(reply: Reply) -> bytes:
    return b"".join(whole(reply))


def _chunked(reply: Reply) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Served-By: a\r\n"
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(reply.body) + chunk(b"")


def _get(target: str) -> bytes:
    return _encoded(Request((), b"", "GET", target))


def _tool_talks() -> Iterator[tuple[str, str, Talk]]:
    order = _encoded(Request((("Content-Type", "application/json"),), b'{"item": "pen"}', "POST", "/orders"))
    json_talk = [
        (_get("/weather?city=Z"), _sized(json_reply(200, WEATHER))),
        (_get("/weather?city=Z"), _sized(json_reply(200, {**WEATHER, "temperature": 3}))),
        (order, _sized(json_reply(201, BILL, {"X-A": "b"}))),
        (_get("/old"), b"HTTP/1.0 200 Fine\r\nContent-Type: text/plain\r\n\r\n"),
        (_get("/none"), _sized(Reply((), b"", 204))),
        (b"HEAD /weather HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
    ]
    yield "tool", "http", json_talk
    yield (
        "tool close",
        "http",
        [
            (request.replace(b"Host: x", b"Host: x\r\nConnection: close"), reply)
            for request, reply in json_talk[:3]
        ],
    )


def _model_talks() -> Iterator[tuple[str, str, Talk]]:
    for form in FORMS:
        framed = _chunked if form.stream else _sized
        yield (
            str(form),
            form.dialect,
            [
                (_encoded(form.request()), framed(form.reply(CALLS))),
                (_encoded(form.request(*CALL.calls)), framed(form.reply(CALL))),
                (_encoded(form.request(*CALLS.calls)), framed(form.reply(TEXT))),
                (_encoded(form.request(*CALLS.calls)), framed(form.reply(FINAL))),
            ],
        )


def _message(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


def _call(id: Any, **arguments: Any) -> dict[str, Any]:
    params = {"name": "add", "arguments": arguments, "_meta": {"progressToken": f"p{id}"}}
    return _message(id=id, method="tools/call", params=params)


def _result(id: Any, value: Any) -> dict[str, Any]:
    text = {"type": "text", "text": json.dumps(value)}
    return _message(id=id, result={"content": [text], "structuredContent": value})


def _progress(token: str) -> dict[str, Any]:
    return _message(method="notifications/progress", params={"progressToken": token, "progress": 1})


TOOLS = [
    {"name": "add", "description": "Adds.", "inputSchema": {"properties": {"a": {"type": "integer"}}}},
    {"name": "ask", "inputSchema": {"type": "object"}},
]
LISTED = _message(id=9, result={"tools": TOOLS})
LIST = _message(id=9, method="tools/list")
CANCEL = _message(method="notifications/cancelled", params={"requestId": 1})
READY = _message(method="notifications/initialized")
CHANGED = _message(method="notifications/tools/list_changed")
CALLED = [(_call(1, a=1), WEATHER), (_call(1, a=1), BILL), (_call(2, a=2), WEATHER), (_call("x"), BILL)]


def _mcp_talks() -> Iterator[tuple[str, str, Talk]]:
    headers = (("Content-Type", "application/json"), ("Mcp-Session-Id", "s1"))

    def posted(message: Any) -> bytes:
        return _encoded(Request(headers, json.dumps(message).encode(), "POST", "/mcp"))

    def streamed(*messages: Any) -> bytes:
        return _chunked(Reply(body=b"".join(write_event(message, "message") for message in messages)))

    accepted = _sized(Reply((), b"", 202))
    rest = [(posted(CANCEL), accepted), (posted(READY), accepted)]
    pushed = _encoded(Request((("Accept", "text/event-stream"), *headers[1:]), b"", "GET", "/mcp"))
    yield (
        "mcp json",
        "mcp",
        [
            *((posted(call), _sized(json_reply(200, _result(call["id"], value)))) for call, value in CALLED),
            (posted(LIST), _sized(json_reply(200, LISTED))),
            *rest,
        ],
    )
    yield (
        "mcp stream",
        "mcp",
        [
            *(
                (posted(call), streamed(_progress(f"p{call['id']}"), _result(call["id"], value)))
                for call, value in CALLED
            ),
            (posted(LIST), streamed(LISTED)),
            (pushed, streamed(CHANGED, _progress("p1"))),
        ],
    )


def _line_talk() -> Talk:
    def line(*messages: Any) -> bytes:
        return b"".join(json.dumps(message).encode() + b"\n" for message in messages)

    return [
        *(
            (line(call), line(_progress(f"p{call['id']}"), _result(call["id"], value)))
            for call, value in CALLED
        ),
        (line(LIST), line(LISTED).replace(b"\n", b"\r\n")),
        (line(CANCEL), b""),
        (line(READY), b""),
        (b"", line(CHANGED, _progress("p1"))),
        (b"no JSON\n", b"neither\n"),
    ]


def _values(annotation: Any) -> list[Any]:
    """All values of a parameter with few values."""
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for part in get_args(annotation) for value in _values(part)]


def variants(fault: type[Fault]) -> Iterator[dict[str, Any]]:
    """The default parameters, and each other value of one with few values."""
    yield {}
    for name, field in fault.model_fields.items():
        for value in _values(field.annotation):
            try:
                if value != field.default and fault(**{name: value}):
                    yield {name: value}
            except InputError:
                continue  # not with the other defaults


_OTHER_FORMS = {str(form) for form in FORMS} - {"openai_chat-json", "openai_chat-stream"}


def happened(fault: type[Fault], parameters: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fault on each kind of link: the bytes of client and server, and the records."""
    entry = {"fault": fault.name, "links": "all", "with": parameters}
    for name, dialect, talk in (*_tool_talks(), *_model_talks(), *_mcp_talks()):
        if parameters and fault.where == "any" and name in _OTHER_FORMS:
            continue  # the defaults suffice
        link = Link("a", "http://127.0.0.1:80", dialect, planted=True)
        kinds = ("any", "mcp" if dialect == "mcp" else "model" if link.is_model else "tool")
        if fault.where in kinds or (fault.where == "tool" and not link.is_model):
            yield name, over_http(link, entry, talk)
    if fault.where in ("any", "tool", "mcp"):
        link = Link("a", STDIO, "mcp", planted=True)
        yield "lines", over_lines(link, entry, _line_talk())


def digest(seen: Any) -> str:
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def digests(fault: type[Fault]) -> dict[str, dict[str, str]]:
    """Digests of a fault's variants, by parameters and transport."""
    return {
        json.dumps(parameters): {name: digest(seen) for name, seen in happened(fault, parameters)}
        for parameters in variants(fault)
    }


def main(folder: str = "") -> None:
    if not folder:
        TABLE.write_text(json.dumps({fault.name: digests(fault) for fault in FAULTS}, indent=1) + "\n")
        return
    for fault in FAULTS:
        for parameters in variants(fault):
            for name, seen in happened(fault, parameters):
                file = Path(folder) / f"{fault.name}-{json.dumps(parameters)}-{name}.txt"
                client, server, records = seen
                lines = ["client", *map(repr, client), "server", *map(repr, server), "records", *records]
                file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
