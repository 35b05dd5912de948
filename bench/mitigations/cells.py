"""The cells of docs/mitigations.md: families of arms, and the faults that each family meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROMPT = 'Order 2 "green tea"'
EXPECTED = {"requests": [{"link": "shop", "method": "POST", "path": "/orders", "times": 1}]}
SEED = 1
MANY, FEW = 10, 5
"""Episodes of a cell; few where each waits for half a minute."""
BOUND_S = 100


@dataclass(frozen=True)
class Trial:
    """A fault at one link. ``episodes`` of each cell; ``settings`` of its runs."""

    name: str
    says: str
    faults: Sequence[Mapping[str, Any]] = ()
    episodes: int = MANY

    @property
    def settings(self) -> dict[str, Any]:
        return {"faults": {"faults": list(self.faults)}} if self.faults else {}


_FIRST = {"first": 1, "of": "try"}
_MODEL = {"links": "model", "only": {"method": "POST"}}
_WRITE = {"links": "shop", "only": {"method": "POST"}}
_LIST = {"links": "shop", "only": {"method": "GET", "path": "/orders"}}
_LIE = {"status": 201, "body": {"id": 1, "item": "green tea", "count": 2, "customer": None}}

CALM = Trial("no fault", "nothing is broken")
LOST_REPLY = Trial(
    "lost reply",
    "the shop carries out the first order, and its reply is lost",
    [{"fault": "lose_reply", **_WRITE, "when": _FIRST}],
)
LYING_TOOL = Trial(
    "lying tool",
    "the shop answers the first order with 201 and an order, and carries nothing out",
    [{"fault": "status", **_WRITE, "with": _LIE, "when": _FIRST}],
)


def _temporary(link: str, where: Mapping[str, Any]) -> list[Trial]:
    """The faults that pass."""
    return [
        Trial(
            "429, 3 s",
            f"the first request to the {link} is refused with 429 and Retry-After: 3",
            [{"fault": "rate_limit", **where, "with": {"retry_after": 3}, "when": _FIRST}],
        ),
        Trial(
            "429, 30 s",
            f"the first request to the {link} is refused with 429 and Retry-After: 30",
            [{"fault": "rate_limit", **where, "with": {"retry_after": 30}, "when": _FIRST}],
            FEW,
        ),
        Trial(
            "503 three times",
            f"the first three requests to the {link} are answered with 503",
            [{"fault": "unavailable", **where, "when": {"first": 3, "of": "try"}}],
        ),
        Trial(
            "outage of 20 s",
            f"the {link} answers 503 for the first 20 s",
            [{"fault": "unavailable", **where, "during": {"start": "0s", "duration": "20s"}}],
            FEW,
        ),
    ]


AT_MODEL = [
    *_temporary("model", _MODEL),
    Trial(
        "stall after first token",
        "the first event stream of the model stops after its first event and stays open",
        [{"fault": "stream_hang", **_MODEL, "with": {"after": 1}, "when": _FIRST}],
    ),
    Trial(
        "error event in a 200",
        "the first event stream of the model ends with an error event",
        [{"fault": "stream_error", **_MODEL, "when": _FIRST}],
    ),
]
AT_KILL = [
    Trial(
        "killed before the reply",
        "the agent is killed when the shop has carried out the order and its reply is not delivered",
        [{"fault": "kill_subject", **_WRITE, "when": _FIRST}],
        FEW,
    ),
    Trial(
        "killed after the reply",
        "the agent is killed 50 ms after the reply to its order, before the next request",
        [{"fault": "kill_subject", **_WRITE, "with": {"at": "after_reply"}, "when": _FIRST}],
        FEW,
    ),
    Trial(
        "killed at the next request",
        "the agent is killed when it reads the orders after its order; that request reaches nothing",
        [{"fault": "kill_subject", **_LIST, "with": {"at": "before_request"}, "when": _FIRST}],
        FEW,
    ),
]
AT_SHOP = [LOST_REPLY, LYING_TOOL, *_temporary("shop", _WRITE)]


@dataclass(frozen=True)
class Family:
    """Arms that are compared with each other."""

    name: str
    title: str
    arms: Sequence[str]
    trials: Sequence[Trial]
    environment: str = "main"
    dialect: str = "openai_chat"
    note: str = ""
    """Conditions that its arms share, in one sentence."""
    is_killed: bool = False
    """Its arms are commands that are started again, not servers that stay up."""


_SDKS = (0, 2, 5)
FAMILIES = (
    Family("sdk-openai", "SDK of OpenAI", [f"openai, max_retries {n}" for n in _SDKS], AT_MODEL),
    Family(
        "sdk-anthropic",
        "SDK of Anthropic",
        [f"anthropic, max_retries {n}" for n in _SDKS],
        AT_MODEL,
        dialect="anthropic",
    ),
    Family(
        "framework",
        "Frameworks",
        [
            "LangChain, defaults",
            "LangChain, ToolRetry",
            "LangChain, ToolRetry, reads only",
            "LangChain, ModelRetry",
            "LangChain, ModelRetry, temporary errors, 5",
            "LangChain, ModelFallback",
            "LangChain, ToolError",
            "LangChain, ToolCallLimit, 1 a run",
            "pydantic-ai, defaults",
            "Agents SDK, defaults",
        ],
        [LOST_REPLY, LYING_TOOL, *AT_MODEL],
        note="`defaults` have the two retries of the client for model requests; arms with a middleware"
        " have none, so that only the middleware acts.",
    ),
    Family(
        "router",
        "Router of LiteLLM",
        [
            "Router, nothing",
            "Router, retries",
            "Router, fallbacks",
            "Router, cooldown",
            "Router, retries and fallbacks and cooldown",
        ],
        _temporary("model", _MODEL),
        environment="litellm",
        note="The client below the router has no retries.",
    ),
    Family(
        "generic",
        "Around the tool's request",
        ["no retry", "tenacity, jitter", "tenacity in a breaker", "hedged write"],
        AT_SHOP,
    ),
    Family(
        "effects",
        "Effects: each retries by tenacity",
        ["no keys", "keys by step", "keys by arguments", "verify after write"],
        AT_SHOP,
    ),
    Family(
        "durable",
        "Durable execution: killed, and started again",
        [
            "started again",
            "started again, key kept in a file",
            "LangGraph, durability exit",
            "LangGraph, durability async",
            "LangGraph, durability sync",
            "LangGraph, durability sync, key kept in a file",
            "DBOS on SQLite",
        ],
        AT_KILL,
        is_killed=True,
    ),
)
NOT_RUN = {
    "MCP server restarted": "no arm here calls its tools by MCP",
    "Temporal, Restate": "no package of the registry carries a server of theirs",
    "real small model": "no recorded model is in the repository",
}
