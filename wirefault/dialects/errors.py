"""Errors in the form of their link: each dialect names its own, here they become replies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply, json_reply

TOOL_USE_FAILED = (
    "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
)
CONTENT_FILTERED = "The response was filtered because the prompt triggered the content management policy."


@dataclass(frozen=True)
class ErrorForm:
    """One error in one dialect. Without a ``type`` it is a proxy's HTML page, which no API made.

    ``message`` is a format string; ``fields`` names the values that are fields of the error object too.
    """

    status: int
    message: str
    type: str | None = None
    code: str | None = None
    fields: tuple[str, ...] = ()


class LinkDialect(Protocol):
    """What any link speaks: its ``errors`` by their names in the catalogue of faults.

    ``id_header`` is the reply header that carries a request's id; empty if there is none.
    """

    name: Dialect
    id_header: str
    errors: Mapping[str, ErrorForm]

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        """Any error as JSON. ``fields`` are further ones of the error object; ``id`` is the request's."""


def error_reply(
    dialect: LinkDialect, kind: str, *, id: str = "", retry_after: float | None = None, **values: Any
) -> Reply:
    """The error ``kind`` of the dialect. ``retry_after``: seconds; ``values``: for the form's message."""
    form = dialect.errors[kind]
    headers = {} if retry_after is None else {"Retry-After": seconds(retry_after)}
    if form.type is None:
        return html_reply(form.status, form.message, headers)
    message = form.message.format_map({"model": "the model", **values})
    fields = {name: values[name] for name in form.fields}
    body = dialect.error_body(form.type, message, code=form.code, id=id, **fields)
    return _with_id(dialect, form.status, body, id, headers)


def typed_error(dialect: LinkDialect, status: int, type: str, message: str, *, id: str = "") -> Reply:
    """An error that the dialect has no name for, in its form."""
    return _with_id(dialect, status, dialect.error_body(type, message, id=id), id, {})


def html_reply(status: int, title: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The page of a proxy that stands before an API."""
    head, body = f"<head><title>{status} {title}</title></head>", f"<body><h1>{status} {title}</h1></body>"
    page = f"<html>\r\n{head}\r\n{body}\r\n</html>\r\n".encode()
    return Reply((("Content-Type", "text/html"), *(headers or {}).items()), page, status)


def seconds(value: float) -> str:
    """``0.2``, ``3``: a Retry-After allows fractions, but no exponents."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _with_id(
    dialect: LinkDialect, status: int, body: dict[str, Any], id: str, headers: Mapping[str, str]
) -> Reply:
    ids = {dialect.id_header: id} if id and dialect.id_header else {}
    return json_reply(status, body, {**headers, **ids})
