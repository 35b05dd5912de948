"""The ``expect`` object of a prompt, its oracle: expected side effects and typed values.

::

    {"effects": [{"kind": "message_sent",
                  "fields": {"to": "Bob", "body": {"number": 11.3, "tolerance": 0.5}}}],
     "values": [{"number": 11.3, "unit": "celsius", "tolerance": 0.1}, {"text": "bonjour"},
                {"any_of": ["a", "b"]}],
     "requests": [{"link": "shop", "method": "POST", "path": "/orders", "json": {"item": "tea"}, "times": 1}],
     "answer": {"number": 11.3, "unit": "celsius"},
     "done_if_text": "exact text"}

No ``effects``: none are expected, and any is one too many. ``"in_order": true``: they must have come about
in this order. ``none_of``: effects that must not be, not even for a time or within one that is asked for. A
field is a plain value, ``{"contains": text or list}``, ``{"number": x, "tolerance": t, "unit": u}`` or
``{"any_of": [...]}``; fields that are not named may hold anything.

``requests`` are for worlds that are not the lab's: the declared writes that upstreams must have executed, and
no others unless ``"others": "allowed"``. ``state``, ``added`` and ``removed`` speak of what the wiring's
probe reads (``oracle.state_world``). Where any of these is given, ``effects`` are judged only if there are
some.

No ``values`` and no ``answer``: the value axis does not apply. ``"grounded": false`` on a value says that no
tool is needed for it. ``answer`` is a rule for prose (``oracle.answer``): it reads the answer of a subject
without a report, and that in a report where no ``values`` are asked for. ``done_if_text`` is for subjects
without a report: an answer which is exactly that text counts as done, and as the right values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from wirefault.core.spelling import nearest
from wirefault.judging.oracle.answer import AnswerRule
from wirefault.judging.oracle.expected_request import ExpectedRequest, Others, check_requests
from wirefault.judging.oracle.json_match import checked_json
from wirefault.judging.oracle.slots import Matcher, OraclePart, Slot, moment_fields
from wirefault.wiring.lab import lab_links
from wirefault.wiring.links import Links

ChangedRows = list[Any] | dict[str, list[Any]]


class ExpectedEffect(OraclePart):
    """One side effect that the prompt asks for."""

    kind: StrictStr
    fields: Annotated[dict[str, Matcher], BeforeValidator(moment_fields)] = Field(default_factory=dict)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        kinds = lab_links().effect_fields
        if kind not in kinds:
            raise ValueError(f"{kind!r} is no kind of side effect{nearest(kind, kinds)}")
        return kind

    @model_validator(mode="after")
    def _has_fields(self) -> ExpectedEffect:
        known = lab_links().effect_fields[self.kind]
        for name in self.fields:
            if name not in known:
                raise ValueError(f"{self.kind} has no field {name!r}{nearest(name, known)}")
        return self


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

    @property
    def asks_of_effects(self) -> bool:
        """Whether the lab's own side effects are judged: they are unless it speaks of another world."""
        return bool(self.effects or self.none_of) or (self.requests is None and not self.asks_of_state)

    @property
    def asks_of_state(self) -> bool:
        """Whether it speaks of what the wiring's probe reads."""
        return self.state is not None or self.asks_of_changes

    @property
    def asks_of_changes(self) -> bool:
        """Whether it speaks of what the episode changed."""
        return self.added is not None or self.removed is not None


_PARTS: Mapping[int | str, type[BaseModel]] = {
    "values": Slot,
    "answer": AnswerRule,
    "requests": ExpectedRequest,
}


def parse_expect(expect: Mapping[str, Any], links: Links | None = None) -> Oracle:
    """The oracle; raises ``ValueError`` that names the key's path and the nearest valid name.

    With the ``links`` of a wiring, what it asks of requests must be writes that these declare.
    """
    oracle = _validated(expect)
    if links is not None:
        check_requests(oracle.requests or (), links)
    return oracle


def _validated(expect: Mapping[str, Any]) -> Oracle:
    try:
        return Oracle.model_validate(dict(expect))
    except ValidationError as error:
        # a wrong name says more than the key which is then missing
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        path = errors[0]["loc"]
        if errors[0]["type"] == "extra_forbidden":
            reason = f"is no key here{nearest(str(path[-1]), _names_at(path[:-1]))}"
        else:
            reason = errors[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{_spelt(('expect', *path))}: {reason}") from None


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
