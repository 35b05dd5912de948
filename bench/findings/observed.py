"""Extract one framework's behaviour under one trial from a run's history. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

from wirefault.history.events import AttemptEnded, Event, Exchange

End = Literal["answered", "no answer", "crashed", "still running"]
Source = Literal["model", "shop", "neither"]
_ENDS: dict[str, End] = {"limit": "still running", "exception": "crashed", "empty": "no answer"}


_EXCEPTION = re.compile(
    r"^(?:Uncaught )?[\w.]*(?:Error|Exception|Exceeded|Timeout)\w*(?: \[\w+\])?(?:: .*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class LinkRequests:
    """Requests on one link: HTTP tries and logical calls.

    On the model link, a request with the same body as the previous one is a further try of the same call. On
    the shop link the calls are those that the model requested. ``sdk_tries`` counts tries that an SDK marked
    as retries in their headers.
    """

    tries: int
    calls: int
    sdk_tries: int = 0


@dataclass(frozen=True)
class Observed:
    """The behaviour in one run.

    ``orders`` is the shop's count; ``tool_result`` the first tool result that the model received. ``seconds``
    count from the first request to the end, since program start-up depends on the machine. ``source``: the
    side whose words the answer contains: the model, the shop or neither.
    """

    end: End
    seconds: float
    model: LinkRequests
    shop: LinkRequests
    orders: int
    delivered: tuple[str, ...]
    streams: bool
    tool_result: str
    answer: str
    error: str
    source: Source


@dataclass(frozen=True)
class Behaviour:
    """Runs that ended alike: the first of them, and the seconds of each."""

    first: Observed
    seconds: Sequence[float]

    @classmethod
    def load(cls, values: Mapping[str, Any]) -> Behaviour:
        """Return the behaviour from its JSON."""
        first = {**values["first"], "delivered": tuple(values["first"]["delivered"])}
        requests = {name: LinkRequests(**first[name]) for name in ("model", "shop")}
        return cls(Observed(**{**first, **requests}), values["seconds"])

    def dump(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"first": asdict(self.first), "seconds": list(self.seconds)}


def behaviours(runs: Iterable[Observed]) -> list[Behaviour]:
    """Return the runs by what they did, the most frequent first. Texts and times may differ."""
    return merged(Behaviour(run, [round(run.seconds, 1)]) for run in runs)


def merged(behaviours: Iterable[Behaviour]) -> list[Behaviour]:
    """Return alike behaviours as one, the most frequent first."""
    alike: dict[Any, Behaviour] = {}
    for each in behaviours:
        run = each.first
        requests = (run.model, run.shop, run.orders, bool(run.tool_result))
        did = (run.end, run.source, *requests, run.delivered, run.streams)
        before = alike.get(did)
        seconds = [*before.seconds, *each.seconds] if before else each.seconds
        alike[did] = Behaviour(before.first if before else run, seconds)
    return sorted(alike.values(), key=lambda each: len(each.seconds), reverse=True)


def observe(events: Sequence[Event], orders: int, delivered: Iterable[str], stderr: str) -> Observed:
    """Return the behaviour in a run with one attempt, which wrote ``stderr``."""
    [ended] = [event for event in events if isinstance(event, AttemptEnded)]
    exchanges = [event for event in events if isinstance(event, Exchange)]
    model = [each for each in exchanges if each.link == "model" and _asks_model(each)]
    shop = [each for each in exchanges if each.link == "shop"]
    began = min((each.start for each in exchanges), default=ended.start)
    answer, source = _answer(ended.response, model, shop)
    return Observed(
        end="crashed" if ended.exited_with_reason else _ENDS.get(ended.ended_by, "answered"),
        seconds=ended.end - began,
        model=LinkRequests(len(model), _calls(model), sum(1 for each in model if each.sdk_retry)),
        shop=LinkRequests(len(shop), sum(len(orders_in(each.reply_body or "")) for each in model)),
        orders=orders,
        delivered=tuple(delivered),
        streams=any(_body(each).get("stream") for each in model),
        tool_result=next((text for each in model if (text := tool_result_in(_body(each)))), ""),
        answer=answer,
        error=exception_in(stderr) or ended.error or "",
        source=source,
    )


def exception_in(stderr: str) -> str:
    """Return the line with the exception that ended a Python or Node program; notes may follow it."""
    return next(iter(reversed(_EXCEPTION.findall(stderr))), "")


def _answer(response: str, model: Sequence[Exchange], shop: Sequence[Exchange]) -> tuple[str, Source]:
    """Return the answer without a framework's decorations, such as frames, and its source."""
    model_texts = [text for each in model for text in _texts(each.reply_body or "")]
    sold = [each.reply_body or "" for each in shop if each.status and each.status < 400]
    sources: list[tuple[Source, list[str]]] = [("model", model_texts), ("shop", sold)]
    for source, texts in sources:
        for text in reversed(texts):
            if _plain(text) and _plain(text) in _plain(response):
                return text, source
    return response.strip(), "neither"


def _asks_model(exchange: Exchange) -> bool:
    return exchange.method == "POST" and exchange.target.endswith(("/chat/completions", "/responses"))


def _calls(exchanges: Sequence[Exchange]) -> int:
    in_order = sorted(exchanges, key=lambda each: each.start)
    return sum(1 for _ in groupby((each.target, each.request_body) for each in in_order))


def orders_in(reply: str) -> list[str]:
    """Return the arguments of each order that a model's reply requests; for a stream, their first piece."""
    calls: list[str] = []
    for value in _documents(reply):
        choices = [choice.get("message") or choice.get("delta") for choice in _objects(value.get("choices"))]
        functions = [
            call.get("function", {}) for each in choices if each for call in _objects(each.get("tool_calls"))
        ]
        functions += [item for item in _objects(value.get("output")) if item.get("type") == "function_call"]
        calls += [str(each.get("arguments", "")) for each in functions if each.get("name") == "order_item"]
    return calls


def _documents(body: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a reply: one, or several of an event stream."""
    lines = [line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:")]
    return _objects([_parsed(line) for line in lines or [body]])


def _body(exchange: Exchange) -> dict[str, Any]:
    try:
        body = json.loads(exchange.request_body or "{}")
    except ValueError:  # long bodies are cut off
        return {}
    return body if isinstance(body, dict) else {}


def tool_result_in(body: dict[str, Any]) -> str:
    """Return the last tool result in a request to a model, in the API's format or in a user message."""
    results = [
        item["output"] for item in _objects(body.get("input")) if item.get("type") == "function_call_output"
    ]
    messages = _objects(body.get("messages"))
    results += [message.get("content") for message in messages if message.get("role") == "tool"]
    if results:
        return _text(results[-1])
    user_texts = [_text(message.get("content")) for message in messages if message.get("role") == "user"]
    quoted = [text for text in user_texts if re.search(r"^(Observation|Error):$", text, re.MULTILINE)]
    return quoted[-1] if quoted else ""


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in _objects(content))


def _texts(reply: str) -> Iterator[str]:
    """Return all texts in a model's reply; pieces of an event stream are joined."""
    pieces = [_strings(value) for value in _documents(reply)]
    for texts in pieces:
        yield from texts
    yield "".join(text for texts in pieces for text in texts)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # [DONE], or a body that was cut off
        return None


def _strings(value: Any) -> list[str]:
    """Return the texts under the keys with a model's words."""
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    if not isinstance(value, dict):
        return []
    named = [
        value[key] for key in ("content", "text", "delta", "arguments") if isinstance(value.get(key), str)
    ]
    return named + [text for each in value.values() for text in _strings(each)]


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text)
