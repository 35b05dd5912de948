"""The trials, which are the same for every framework: fault sets that act at one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wirefault.model_server.decide import Persona

PROMPT = 'Order 2 "green tea"'
BOUND_S = 120
SEEDS = range(1, 11)
"""Each trial runs once with each seed."""
_ORDERS = {"links": "shop", "only": {"method": "POST"}}
_EARLY = {"with": {"at": "connect"}}
_FIRST = {"first": 1, "of": "try"}


@dataclass(frozen=True)
class Trial:
    """A fault set. ``says`` describes it on the page; ``persona`` is the scripted model's."""

    name: str
    says: str
    faults: Mapping[str, Any] = field(default_factory=dict)
    persona: Persona = Persona.DILIGENT

    def settings(self, seed: int) -> dict[str, Any]:
        """Return the settings of its run with this seed."""
        faults = {"faults": json.dumps(self.faults)} if self.faults else {}
        return {"seed": seed, "attempt_time": BOUND_S, **faults}


def _once(fault: str, **where: Any) -> dict[str, Any]:
    return {"faults": [{"fault": fault, **where, "when": _FIRST}]}


def _always(fault: str, **where: Any) -> dict[str, Any]:
    return {"faults": [{"fault": fault, **where}]}


def _at_model(fault: str, **more: Any) -> dict[str, Any]:
    """Return the fault for model calls only: clients also send traces and ask for token counts."""
    paths = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
    entries = [
        {"fault": fault, "id": name, "links": "model", "only": {"path": path}, **more}
        for name, path in paths.items()
    ]
    return {"faults": entries}


LOST_REPLY = _once("lose_reply", **_ORDERS)
CALM = Trial("calm", "no fault")
TRIALS = (
    CALM,
    Trial("lost reply", "the shop executes the first order, and its reply is lost", LOST_REPLY),
    Trial(
        "lost reply, insistent model",
        "the same, and the model repeats a call until it works",
        LOST_REPLY,
        Persona.STUBBORN,
    ),
    Trial("tool error", "the shop answers each order with 503", _always("unavailable", **_ORDERS)),
    Trial(
        "tool hangs",
        "the shop executes each order and never answers",
        _always("hang", **_ORDERS),
    ),
    Trial(
        "tool's server dies",
        "the shop's server dies on each order: the connection is reset",
        _always("reset", **_ORDERS, **_EARLY),
    ),
    Trial("lost model reply", "the model's first reply is lost", _at_model("lose_reply", when=_FIRST)),
    Trial(
        "rate limits",
        "the model's API answers everything with 429 and Retry-After: 1",
        _at_model("rate_limit", **{"with": {"retry_after": 1}}),
    ),
    Trial("model hangs", "the model never answers", _at_model("hang")),
    Trial(
        "model's server dies",
        "the model's server dies on each request: the connection is reset",
        _at_model("reset", **_EARLY),
    ),
    Trial(
        "malformed tool call",
        "the arguments of the model's first tool call are not valid JSON",
        _at_model("malformed_tool_call", when=_FIRST),
    ),
    Trial("stream cut", "the model's first event stream breaks off", _at_model("stream_cut", when=_FIRST)),
)
