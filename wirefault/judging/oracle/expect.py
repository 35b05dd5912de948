"""The ``expect`` object of a prompt, its oracle: expected side effects and typed values.

::

    {"effects": [{"kind": "message_sent",
                  "fields": {"to": "Bob", "body": {"number": 11.3, "tolerance": 0.5}}}],
     "values": [{"number": 11.3, "unit": "celsius", "tolerance": 0.1}, {"text": "bonjour"},
                {"any_of": ["a", "b"]}],
     "requests": [{"link": "shop", "method": "POST", "path": "/orders", "json": {"item": "tea"}, "times": 1}],
     "answer": {"number": 11.3, "unit": "celsius"},
     "done_if_text": "exact text",
     "claims": "read"}

Without ``effects`` none are expected, and any effect is extra. ``"in_order": true``: they must happen in this
order. ``none_of``: effects that must not happen, not even temporarily or as part of an expected one. A field
is a plain value, ``{"contains": text or list}``, ``{"number": x, "tolerance": t, "unit": u}`` or
``{"any_of": [...]}``; other fields may have any value.

``requests`` are for worlds outside the lab: the declared writes that upstreams must have executed, and no
others unless ``"others": "allowed"``. ``state``, ``added`` and ``removed`` describe the state that the
wiring's probe reads (``oracle.state_world``). If one of these is set, ``effects`` are judged only if there
are any.

Without ``values`` and ``answer`` the value axis does not apply. ``"grounded": false`` on a value means that
it needs no tool. ``answer`` is a rule for prose (``oracle.slots.AnswerRule``): it reads the answer of a
subject without a report, and the answer in a report if no ``values`` are expected. ``done_if_text`` is for
subjects without a report: an answer with exactly that text counts as done with the right values.

``claims``: whether prose is read for claims about actions (``reading.claims``). With ``off`` the claim is
``unclear``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from wirefault.core.errors import nearest
from wirefault.dialects.mcp import MCP
from wirefault.judging.oracle.slots import AnswerRule, Matcher, OraclePart, Slot, checked_json, moment_fields
from wirefault.judging.reading.claims import ACTS, Act
from wirefault.wiring.links import Link, Links, lab_links
from wirefault.wiring.prompts import ExpectCheck
from wirefault.wiring.write_requests import WRITING_METHODS

Others = Literal["forbidden", "allowed"]
ChangedRows = list[Any] | dict[str, list[Any]]
_ACT_OF_EFFECT: Mapping[str, Act] = {
    "message_sent": "send",
    "event_created": "make",
    "events_deleted": "remove",
}
# words in the names, paths and bodies of calls that remove or send something
_REMOVES = re.compile(r"delet|remov|cancel|refund|revok|destroy", re.IGNORECASE)
_SENDS = re.compile(r"messag|mail|send|sent|notif|sms|post_|recipient|\bto\b", re.IGNORECASE)


def _read_or_off(value: object) -> object:
    """YAML 1.1 reads ``off`` as false."""
    return "off" if value is False else value


class ExpectedEffect(OraclePart):
    """One expected side effect."""

    kind: StrictStr
    fields: Annotated[dict[str, Matcher], BeforeValidator(moment_fields)] = Field(default_factory=dict)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        kinds = lab_links().effect_fields
        if kind not in kinds:
            raise ValueError(f"unknown kind of side effect {kind!r}{nearest(kind, kinds)}")
        return kind

    @model_validator(mode="after")
    def _has_fields(self) -> ExpectedEffect:
        known = lab_links().effect_fields[self.kind]
        for name in self.fields:
            if name not in known:
                raise ValueError(f"{self.kind} has no field {name!r}{nearest(name, known)}")
        return self


def _path_alone(path: str) -> str:
    if not re.fullmatch(r"/[^?#\n]*", path):
        raise ValueError(f"must start with / and have no query, such as /orders, not {path!r:.60}")
    return path


class ExpectedRequest(OraclePart):
    """A declared write that must be executed ``times`` times: a method and a path, or an MCP ``tool``, whose
    arguments are its body. ``*`` in a path or in a tool's name matches any part of it."""

    link: StrictStr
    method: Annotated[StrictStr, AfterValidator(str.upper)] = ""
    path: Annotated[StrictStr, AfterValidator(_path_alone)] = ""
    tool: StrictStr = ""
    query: dict[str, Any] = Field(default_factory=dict)
    body: Annotated[Any, AfterValidator(checked_json)] = Field(None, alias="json")
    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _names_a_call(self) -> Self:
        if self.tool and (self.method or self.path or self.query):
            raise ValueError("method, path and query cannot be combined with a tool")
        if not self.tool and not (self.method and self.path):
            raise ValueError("missing method and path, or a tool on an MCP link")
        return self

    @property
    def call(self) -> str:
        """The call in the form of a link's ``writes``."""
        return self.tool or f"{self.method} {self.path}"

    @property
    def name(self) -> str:
        return f"{self.call} of {self.link}"


class Oracle(OraclePart):
    """The ground truth for one prompt."""

    effects: list[ExpectedEffect] = Field(default_factory=list)
    in_order: StrictBool = False
    none_of: list[ExpectedEffect] = Field(default_factory=list)
    requests: list[ExpectedRequest] | None = None
    others: Others = "forbidden"
    state: Annotated[Any, AfterValidator(checked_json)] = None
    added: Annotated[ChangedRows | None, AfterValidator(checked_json)] = None
    removed: Annotated[ChangedRows | None, AfterValidator(checked_json)] = None
    values: list[Slot] = Field(default_factory=list)
    answer: AnswerRule | None = None
    done_if_text: Annotated[StrictStr, Field(min_length=1)] | None = None
    claims: Annotated[Literal["read", "off"], BeforeValidator(_read_or_off)] = "read"

    @property
    def expects_effects(self) -> bool:
        """Whether the lab's own side effects are judged: not if the oracle describes only another world."""
        return bool(self.effects or self.none_of) or (self.requests is None and not self.expects_state)

    @property
    def expects_state(self) -> bool:
        """Whether it describes the state that the wiring's probe reads."""
        return self.state is not None or self.expects_changes

    @property
    def asked_acts(self) -> frozenset[Act]:
        """The expected kinds of changes; empty if nothing must change."""
        acts = {_ACT_OF_EFFECT[effect.kind] for effect in self.effects if effect.kind in _ACT_OF_EFFECT}
        acts.update(*(_acts_of(request) for request in self.requests or ()))
        acts.update(_acts_of_rows(self.added, "make"), _acts_of_rows(self.removed, "remove"))
        return ACTS if self.state is not None else frozenset(acts)

    @property
    def names_all_writes(self) -> bool:
        """Whether every write that it does not name is forbidden."""
        return bool(self.effects) or (self.requests is not None and self.others == "forbidden")

    @property
    def expects_changes(self) -> bool:
        """Whether it describes the changes of the episode."""
        return self.added is not None or self.removed is not None


def _acts_of(request: ExpectedRequest) -> Iterator[Act]:
    words = f"{request.call} {json.dumps(request.body, default=str)}"
    removes = request.method == "DELETE" or bool(_REMOVES.search(words))
    if removes:
        yield "remove"
    if _SENDS.search(request.call):
        yield "send"
    if not removes or request.method not in ("DELETE", ""):
        yield "make"


def _acts_of_rows(rows: ChangedRows | None, act: Act) -> Iterator[Act]:
    if rows:
        yield act
        if act == "make" and _SENDS.search(json.dumps(rows, default=str)):
            yield "send"


def expect_check(links: Links | None = None) -> ExpectCheck:
    """Return the check of oracles for ``load_prompts``; ``links`` as for ``parse_expect``."""
    return partial(parse_expect, links=links)


_PARTS: Mapping[int | str, type[BaseModel]] = {
    "values": Slot,
    "answer": AnswerRule,
    "requests": ExpectedRequest,
}


def parse_expect(expect: Mapping[str, Any], links: Links | None = None) -> Oracle:
    """Parse the oracle. Raises ``ValueError`` that names the key's path and the nearest valid name.

    With the ``links`` of a wiring, the expected requests must be writes that these declare, or be on links
    that may be found at run time.
    """
    try:
        oracle = Oracle.model_validate(dict(expect))
    except ValidationError as error:
        # report an unknown key rather than the missing one, which it probably means
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        path = errors[0]["loc"]
        if errors[0]["type"] == "extra_forbidden":
            reason = f"unknown key{nearest(str(path[-1]), _names_at(path[:-1]))}"
        else:
            reason = errors[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{_spelt(('expect', *path))}: {reason}") from None
    if links is not None:
        _check_requests(oracle.requests or (), links)
    return oracle


def _names_at(path: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Oracle
    if "fields" in path:
        model = Matcher
    elif path:
        model = _PARTS.get(path[0], ExpectedEffect)
    names = [field.alias or name for name, field in model.model_fields.items()]
    return [name for name in names if name != "equals"]


def _spelt(path: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _check_requests(requests: Sequence[ExpectedRequest], links: Links) -> None:
    """Raises ``ValueError`` for a request that no link declares, with its place and the nearest name."""
    for index, request in enumerate(requests):
        where = f"expect.requests[{index}]"
        if request.link not in links:
            _check_to_be_found(request, links, where)
            continue
        link = links[request.link]
        if not link.writes:
            raise ValueError(f"{where}: the link {request.link} declares no `writes` in the wiring")
        _check_call(request, link, where)


def _check_to_be_found(request: ExpectedRequest, links: Links, where: str) -> None:
    """Raises ``ValueError`` if no link of that name can be found, or if the call is never a write."""
    if not links.grows:
        raise ValueError(f"{where}.link: unknown link {request.link!r}{nearest(request.link, links.names)}")
    if problem := links.why_never_found(request.link):
        raise ValueError(f"{where}.link: {problem}")
    if not request.tool and request.method not in WRITING_METHODS:
        raise ValueError(f"{where}.method: {request.method} is never a write of a link that is found")


def _check_call(request: ExpectedRequest, link: Link, where: str) -> None:
    is_mcp = link.dialect == MCP.name
    if is_mcp != bool(request.tool):
        wanted = "speaks MCP: name a tool" if is_mcp else "does not speak MCP: name method and path"
        raise ValueError(f"{where}: the link {request.link} {wanted}")
    methods = sorted({call.partition(" ")[0] for call in link.writes})
    if not is_mcp and request.method not in methods:
        hint = nearest(request.method, methods)
        raise ValueError(f"{where}.method: {request.link} declares no write by {request.method}{hint}")
    if not any(_covers(call, request) for call in link.writes):
        field, hint = "tool" if is_mcp else "path", nearest(request.call, link.writes)
        raise ValueError(f"{where}.{field}: {request.link} does not declare {request.call} as a write{hint}")


def _covers(declared: str, request: ExpectedRequest) -> bool:
    """Whether the declared write covers the request; both may have ``*`` in their names."""
    return fnmatchcase(request.call, declared) or fnmatchcase(declared, request.call)
