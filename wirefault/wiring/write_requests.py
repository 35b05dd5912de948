"""Which requests change state. Pure.

A POST, PUT, PATCH or DELETE is a write, and so is a call of an MCP tool that is not annotated as read-only,
or of a function that is not marked as a read, unless its name or body says that it only reads. A wiring
corrects that: where it declares the writes of a link, its list decides. The gateway, the judge and the audit
all ask ``is_write``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from wirefault.dialects.http import data_of, split_events
from wirefault.dialects.json_values import as_object, as_text, parsed
from wirefault.dialects.mcp import message_of
from wirefault.dialects.model_requests import may_ask_model
from wirefault.wiring.links import Link

# Repeating them changes nothing more: RFC 9110, 9.2.2.
IDEMPOTENT_METHODS = frozenset({"PUT", "DELETE"})
WRITING_METHODS = frozenset({"POST", "PATCH", *IDEMPOTENT_METHODS})
_TOKEN_PATH = re.compile(r"/(?:token|oauth2?/(?:v\d+/)?token|connect/token|introspect)$", re.I)
_TELEMETRY_PATH = re.compile(
    r"/(?:v1/(?:traces|metrics|logs)|envelope/?|telemetry|otlp/.*|runs/(?:batch|multipart)|api/v2/spans)$",
    re.I,
)
_TELEMETRY_HOST = re.compile(
    r"(?:^|\.)(?:sentry\.io|posthog\.com|segment\.io|amplitude\.com|datadoghq\.(?:com|eu)|honeycomb\.io"
    r"|langsmith\.com|smith\.langchain\.com|langfuse\.com|statsig(?:api)?\.(?:com|net)|mixpanel\.com)$"
)
_READING_METHOD = re.compile(
    r"(?:^|[._/])(?:eth_(?:call|blockNumber|chainId|gasPrice|estimateGas))$"
    r"|(?:^|[._/])(?:get|list|read|find|search|query|fetch|describe|count|status|ping|version)(?![a-z])"
)
_READING_NAME = re.compile(
    r"(?:^|[_.:-])(?:m?search|query|find|look_?up|list|get|read|fetch|describe|count|status|poll|preview|validate"
    r"|estimate|calculate|autocomplete|suggest|embed(?:dings?)?|rerank|quote|translate|moderations?|classify|tokenize"
    r"|batch_?get|run_?query)(?![a-z])"
    r"|^(?:Get|List|Search|Find|Read|Fetch|Describe|Query|Scan|BatchGet|TransactGet|Count)(?![a-z])",
)
_WRITING_WORD = re.compile(
    r"(?<![a-z])(?:create|update|delete|insert|upsert|set|add|send|submit|place|remove|write|charge|transfer"
    r"|buy|book|cancel|pay)(?![a-z])",
    re.I,
)
_VERSION_PART = re.compile(r"v\d+(?:(?:alpha|beta)\d*)?", re.I)
_ID_PART = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=[0-9a-f]*\d)[0-9a-f]{8,}|\d+", re.I
)
_GRAPHQL_COMMENT = re.compile(r"#[^\n]*")
_GRAPHQL_WRITE = re.compile(r"(?:^|[}\s])mutation\b(?=\s*(?:\w+\s*)?[({@])")


@dataclass(frozen=True)
class SentRequest:
    """A request as far as it shows whether it is a write."""

    method: str
    target: str
    body: str | None
    """None without one, or if it is not kept."""
    whole: bool
    """Whether ``body`` is all of it."""
    message: str = ""
    """Method of the MCP message."""
    tool: str = ""
    """The MCP tool that it calls."""
    of_mcp: bool = False
    amz_target: str = ""
    """The header X-Amz-Target."""

    @property
    def operation(self) -> str:
        return operation_in(self.body if self.whole else None, self.amz_target)


@dataclass(frozen=True)
class Corrections:
    """The user's corrections of the list of writes: patterns such as ``POST /search``."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def is_write(self, name: str, *, by_kind: bool) -> bool:
        """Return whether the call changes state, by the corrections and then by its kind.

        A pattern without an operation selects all operations of the path.
        """
        names = dict.fromkeys((name, " ".join(name.split(" ")[:2])))
        if any(fnmatchcase(each, pattern) for each in names for pattern in self.reads):
            return False
        return by_kind or any(fnmatchcase(each, pattern) for each in names for pattern in self.writes)


def is_write(link: Link, request: SentRequest, read_only_tools: Collection[str]) -> bool:
    """Whether the request changes state.

    ``read_only_tools``: those that the link's MCP server annotates so. Requests to models are not writes, and
    the caller excludes them.
    """
    if not may_write(link, request, read_only_tools):
        return False
    return _declares_writes(link) or _mutates(request) or not reads_by_name(_name_of(request))


def may_write(link: Link, request: SentRequest, read_only_tools: Collection[str]) -> bool:
    """Whether the request may change state: as ``is_write``, but the name of a read proves nothing."""
    if request.whole and is_graphql_query(request.method, request.body):
        return False
    operation = request.operation if link.declares_operations else ""
    if link.is_write(request.method, request.target, request.tool, operation):
        return True
    if _declares_writes(link):
        return False
    if request.of_mcp:
        return bool(request.tool) and request.tool not in read_only_tools
    if request.method not in WRITING_METHODS or request.message:
        return False
    return not _only_reads(request, link.upstream)


def _declares_writes(link: Link) -> bool:
    return link.is_of_lab or bool(link.writes) or link.writes_declared


def _name_of(request: SentRequest) -> str:
    return request.tool or f"{request.method} {request.target.partition('?')[0]} {request.operation}".rstrip()


def _mutates(request: SentRequest) -> bool:
    """Whether it is a GraphQL operation that writes, whatever its path is called."""
    query = as_object(_json(request.body)).get("query") if request.whole else None
    return isinstance(query, str) and _GRAPHQL_WRITE.search(_GRAPHQL_COMMENT.sub("", query)) is not None


def path_template(target: str) -> str:
    """Return the path with numbers, UUIDs and long hexadecimal ids as ``*``; versions such as ``v1`` stay."""
    segments = target.partition("?")[0].split("/")
    return "/".join(each if _VERSION_PART.fullmatch(each) else _ID_PART.sub("*", each) for each in segments)


def reads_by_name(call: str) -> bool:
    """Whether the last part of a path, or the name of a tool, says that the call only reads.

    ``call`` is ``METHOD /path`` or the name of the tool.
    """
    name = call.rpartition(" ")[2].rstrip("/").rpartition("/")[2]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return _READING_NAME.search(name) is not None and _WRITING_WORD.search(words) is None


def operation_in(body: str | bytes | None, amz_target: str = "") -> str:
    """Return the operation of a request whose path serves several; empty for any other.

    That is AWS's ``amz_target``, GraphQL's ``operationName`` or JSON-RPC's ``method``.
    """
    if amz_target:
        return amz_target
    value = as_object(_json(body)) if body else {}
    return as_text(value.get("operationName")) or (as_text(value.get("method")) if "jsonrpc" in value else "")


def is_graphql_query(method: str, body: str | None) -> bool:
    """Whether it is a GraphQL operation that only reads, or a batch of these."""
    if method != "POST" or not body:
        return False
    value = _json(body)
    if value is None:
        return _is_graphql_read(body)  # application/graphql
    operations = value if isinstance(value, list) else [value]
    return bool(operations) and all(_is_graphql_read(as_object(each).get("query")) for each in operations)


def _is_graphql_read(text: object) -> bool:
    if not isinstance(text, str):
        return False
    document = _GRAPHQL_COMMENT.sub("", text).strip()
    is_document = document.startswith(("{", "query", "subscription", "fragment")) and "{" in document
    return is_document and not _GRAPHQL_WRITE.search(document)


def read_only_tools(tool_list: str) -> set[str]:
    """The tools that a reply to ``tools/list`` annotates as read-only."""
    return {
        as_text(tool.get("name"))
        for tool in _listed(tool_list)
        if as_object(tool.get("annotations")).get("readOnlyHint") is True
    }


def _listed(body: str) -> Iterator[Mapping[str, Any]]:
    texts = [data_of(event) for event in split_events(body.encode())]
    for text in [body.encode(), *texts]:
        message = message_of(_json(text))
        if message is not None:
            yield from message.tools


def _only_reads(request: SentRequest, upstream: str) -> bool:
    """Whether a request that is declared nowhere certainly changes nothing that matters."""
    path, body = request.target.partition("?")[0], request.body or ""
    # the body, if it can be read, shows that it asks no model: the caller excludes those that do
    may_be_of_model = may_ask_model(path) and not (request.whole and isinstance(_json(body), dict))
    if may_be_of_model or _TOKEN_PATH.search(path) or "grant_type=" in body:
        return True
    if _TELEMETRY_PATH.search(path) or _TELEMETRY_HOST.search(urlsplit(upstream).hostname or ""):
        return True
    if request.amz_target:
        return reads_by_name(request.amz_target.rpartition(".")[2])
    value = _json(body)
    messages = list(map(as_object, value)) if isinstance(value, list) else [as_object(value)]
    return bool(messages) and all(
        "jsonrpc" in message and _READING_METHOD.search(as_text(message.get("method")))
        for message in messages
    )


def _json(text: str | bytes | None) -> Any:
    try:
        return parsed(text or "")
    except ValueError:
        return None
