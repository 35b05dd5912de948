"""Tries that meet a fault, without a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.dialects.forms import Form
from wirefault.core.identity import draw
from wirefault.dialects import Dialect
from wirefault.dialects.base import ToolCall
from wirefault.dialects.http import JSON_TYPE, Reply, Request, json_reply
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.sets.conditions import Only

WEATHER = Request(method="GET", target="/weather?city=Zurich")


def always(number: float) -> Callable[[str], float]:
    return lambda purpose: number


def keyed(seed: int) -> Callable[[str], float]:
    """The schedule's draws for one try."""
    return lambda purpose: draw(seed, "e", 1, "weather", "", 1, 1, purpose)


def a_try(
    *,
    dialect: Dialect = "tool",
    request: Request = WEATHER,
    ordinal: int = 1,
    chance: Callable[[str], float] | None = None,
    earlier: Sequence[Reply] = (),
) -> Try:
    link = "weather" if dialect == "tool" else "model"
    return Try(link, dialect, request, "e", 1, 1, 1, ordinal, chance or keyed(1), earlier)


def model_try(
    form: Form, *earlier: ToolCall, tools: bool = True, chance: Callable[[str], float] | None = None
) -> Try:
    """A model try whose request has those calls in its conversation."""
    return a_try(dialect=form.dialect, request=form.request(*earlier, tools=tools), chance=chance)


def model_request(**body: Any) -> Request:
    return Request(JSON_TYPE, json.dumps(body).encode(), "POST", "/openai/v1/chat/completions")


def eligible(only: Only, request: Request) -> bool:
    """Whether the selectors choose the request."""
    return only.matches_head(request.method, request.path) and only.matches_content(request)


def act_of(fault: Fault, tried: Try | None = None) -> Act:
    act = fault.act(tried or a_try())
    assert isinstance(act, Act)
    return act


def done_to(fault: Fault, reply: Reply | Any, tried: Try | None = None) -> Changed | Miss:
    """The fault's effect on the reply (or of that JSON, as a reply)."""
    act = act_of(fault, tried)
    assert act.reply is not None
    return act.reply(reply if isinstance(reply, Reply) else json_reply(200, reply))


def changed(fault: Fault, reply: Reply | Any, tried: Try | None = None) -> tuple[Reply, dict[str, Any]]:
    """The changed reply and the evidence, of a fault that gives a whole reply."""
    done = done_to(fault, reply, tried)
    assert isinstance(done, Changed) and isinstance(done.reply, Reply)
    return done.reply, dict(done.evidence)


def why_not(fault: Fault, reply: Reply | Any, tried: Try | None = None) -> str:
    done = done_to(fault, reply, tried)
    assert isinstance(done, Miss)
    return done.why
