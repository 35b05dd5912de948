"""What a run's history tells of one framework under one trial. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from windtunnel.history.events import AttemptEnded, Event, Exchange

End = Literal["answered", "no answer", "crashed", "still running"]
_ENDS: dict[str, End] = {"limit": "still running", "exception": "crashed", "empty": "no answer"}


@dataclass(frozen=True)
class Asked:
    """Requests on one link: every HTTP try, and how many of them were not the repetition of the one before.

    ``sdk_tries`` of the tries say of themselves, by their headers, that an SDK sent them again.
    """

    tries: int
    calls: int
    sdk_tries: int

    @property
    def framework_tries(self) -> int:
        """Repetitions that no SDK owned up to: the framework's own, or those of an SDK that does not say."""
        return self.tries - self.calls - self.sdk_tries


@dataclass(frozen=True)
class Observed:
    """``orders`` is the shop's own count; ``told`` what the model was given as the tool's result, the last time.

    ``own_words``: the answer is no text of the model's, though it ended as if all were well.
    """

    end: End
    seconds: float
    model: Asked
    shop: Asked
    orders: int
    delivered: tuple[str, ...]
    streams: bool
    told: str
    answer: str
    error: str
    own_words: bool


def observe(events: Sequence[Event], orders: int, delivered: Iterable[str]) -> Observed:
    """The figures of a run with one attempt."""
    [ended] = [event for event in events if isinstance(event, AttemptEnded)]
    exchanges = [event for event in events if isinstance(event, Exchange)]
    model = [each for each in exchanges if each.link == "model" and _asks_model(each)]
    shop = [each for each in exchanges if each.link == "shop"]
    end = _ENDS.get(ended.ended_by, "answered")
    said = [text for each in model for text in _texts(each.reply_body or "")]
    answer = _last_line(ended.response)
    return Observed(
        end=end,
        seconds=ended.ms / 1000,
        model=_asked(model),
        shop=_asked(shop),
        orders=orders,
        delivered=tuple(delivered),
        streams=any(_body(each).get("stream") for each in model),
        told=next((told for each in reversed(model) if (told := tool_result_in(_body(each)))), ""),
        answer=answer,
        error=ended.error or "",
        own_words=end == "answered" and _plain(answer) not in _plain(" ".join(said)),
    )


def _asks_model(exchange: Exchange) -> bool:
    return exchange.method == "POST" and exchange.target.endswith(("/chat/completions", "/responses"))


def _asked(exchanges: Sequence[Exchange]) -> Asked:
    in_order = sorted(exchanges, key=lambda each: each.start)
    calls = [key for key, _ in groupby((each.method, each.target, each.request_body) for each in in_order)]
    return Asked(len(in_order), len(calls), sum(1 for each in in_order if each.sdk_retry))


def _body(exchange: Exchange) -> dict[str, Any]:
    try:
        body = json.loads(exchange.request_body or "{}")
    except ValueError:  # cut off where it is long
        return {}
    return body if isinstance(body, dict) else {}


def tool_result_in(body: dict[str, Any]) -> str:
    """The last result of a tool in a request to a model: chat completions, Responses, or words of the user's."""
    results = [
        item["output"] for item in _objects(body.get("input")) if item.get("type") == "function_call_output"
    ]
    messages = _objects(body.get("messages"))
    results += [message.get("content") for message in messages if message.get("role") == "tool"]
    if results:
        return _text(results[-1])
    said = [_text(message.get("content")) for message in messages if message.get("role") == "user"]
    quoted = [text for text in said if re.search(r"^(Observation|Error):$", text, re.MULTILINE)]
    return quoted[-1] if quoted else ""


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in _objects(content))


def _texts(body: str) -> Iterator[str]:
    """All texts in a reply, JSON or an event stream; the pieces of a stream are put together."""
    lines = [line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:")]
    pieces = [_strings(value) for line in lines or [body] if (value := _parsed(line)) is not None]
    for texts in pieces:
        yield from texts
    yield "".join(text for texts in pieces for text in texts)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # [DONE], or a body that was cut off
        return None


def _strings(value: Any) -> list[str]:
    """What stands under the names that a model's words have."""
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


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
