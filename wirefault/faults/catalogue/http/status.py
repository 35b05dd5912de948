"""status: any status, body and headers in the upstream's place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.caller_errors import HTTP_ERRORS, ErrorKind, status_kind
from wirefault.dialects.base import typed_error
from wirefault.dialects.http import FRAMING, JSON_TYPE, Headers, Reply, dump_json
from wirefault.dialects.registry import DIALECTS
from wirefault.faults.base import Act, Changed, Fault, Try
from wirefault.faults.catalogue.errors import request_id


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", value):
            raise ValueError(f"{name!r} cannot be sent as a header")
        if name.lower() in FRAMING:
            raise ValueError(f"{name} follows from the body; see the faults truncate and hang")
    return headers


class AnsweringFault(Fault):
    """Gives an answer of its own in the upstream's place."""

    executed: bool = Field(
        False, description="whether the upstream executes the request first; its reply is then thrown away"
    )

    def answer_with(self, reply: Reply, **evidence: Any) -> Act:
        """Gives this reply, after the upstream's has come if the request is ``executed``."""
        proof = {"status": reply.status, **evidence}
        if self.executed:
            return Act(reply=lambda upstream: Changed(reply, {**proof, "upstream_status": upstream.status}))
        return Act(answer=reply, evidence=proof)


class Status(AnsweringFault):
    """Any status with any body and headers, in the upstream's place.

    The request is not forwarded, unless ``executed``. Without a ``body`` it is an error in the link's own
    form (a tool's, OpenAI's or Anthropic's); a text is sent as it is, anything else as JSON. Most clients
    look at the status alone: from 400 on they report an error, below they take the body for an answer.
    """

    name = "status"
    family = "http"
    can_cause = HTTP_ERRORS | {"bad_reply"}

    status: int = Field(500, ge=200, le=599, description="the status")
    body: Any = Field(None, description="a text, or JSON; without it the link's own form of an error")
    headers: Annotated[Mapping[str, str], AfterValidator(_sendable)] = Field(
        default_factory=dict, description="headers to send with it"
    )

    @model_validator(mode="after")
    def _may_have_a_body(self) -> Status:
        if self.status in (204, 304) and self.body is not None:
            raise ValueError(f"a reply with status {self.status} has no body")
        return self

    @property
    def causes(self) -> frozenset[ErrorKind]:
        kind = status_kind(self.status)
        return frozenset({kind}) if kind else self.can_cause - HTTP_ERRORS

    def act(self, tried: Try) -> Act:
        return self.answer_with(self._reply(tried))

    def _reply(self, tried: Try) -> Reply:
        headers = tuple(self.headers.items())
        if self.status in (204, 304):
            return Reply(headers, b"", self.status)
        if self.body is None:
            words = _phrase(self.status)
            kind = words.lower().replace(" ", "_")
            error = typed_error(DIALECTS[tried.dialect], self.status, kind, words, id=request_id(tried))
            return Reply((*_without(error.headers, self.headers), *headers), error.body, self.status)
        usual, body = self._body(self.body)
        return Reply((*_without(usual, self.headers), *headers), body, self.status)

    @staticmethod
    def _body(value: Any) -> tuple[Headers, bytes]:
        if isinstance(value, str):
            return (("Content-Type", "text/plain; charset=utf-8"),), value.encode("utf-8", "replace")
        return JSON_TYPE, dump_json(value)


def _without(headers: Headers, given: Mapping[str, str]) -> Headers:
    names = {name.lower() for name in given}
    return tuple((name, value) for name, value in headers if name.lower() not in names)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"
