"""One request as it was sent, put together from its caller's record and the gateway's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wirefault.core.caller_errors import error_kind
from wirefault.history.events import Exchange, ModelCall, ToolTry
from wirefault.judging.oracle.wire_world import Fate, fate_of
from wirefault.wiring.link import Link

Executed = Literal["yes", "no", "maybe"]
SameKey = tuple[int, str, str]
_EXECUTED: Mapping[Fate, Executed] = {"executed": "yes", "refused": "no", "maybe": "maybe"}


@dataclass(frozen=True)
class Sent:
    """A request: ``tried`` is the record of a caller that keeps one, ``exchange`` that of the gateway.

    One of both may be missing: opaque subjects record nothing, and not every try comes as far as the gateway.
    ``ids`` are those of the records that there are. ``replies_are_lost``: whether a toxic on the link keeps
    every reply from the caller; None if one may, and nobody knows which.
    """

    ids: tuple[str, ...]
    exchange: Exchange | None
    tried: ToolTry | ModelCall | None
    link: Link | None
    replies_are_lost: bool | None = False

    @property
    def attempt(self) -> int:
        return self._record.attempt

    @property
    def link_name(self) -> str:
        if self.exchange is not None:
            return self.exchange.link
        return self.tried.link if isinstance(self.tried, ToolTry) else "model"

    @property
    def of_model(self) -> bool:
        return self.exchange.of_model if self.exchange else isinstance(self.tried, ModelCall)

    @property
    def start(self) -> float:
        """Seconds since the epoch, on the caller's clock where it keeps a record."""
        match self.tried:
            case ToolTry():
                return self.tried.start
            case ModelCall():
                return self.tried.t - self.tried.ms / 1000
        assert self.exchange is not None
        return self.exchange.start

    @property
    def end(self) -> float:
        match self.tried:
            case ToolTry():
                return self.tried.end
            case ModelCall():
                return self.tried.t
        assert self.exchange is not None
        return self.exchange.start + self.exchange.ms / 1000

    @property
    def name(self) -> str:
        """Method and path, as far as they are known, else the name of the tool, or of the message of MCP."""
        if self.exchange is not None and self.exchange.message:
            return self.exchange.tool or self.exchange.message
        if self.exchange is not None:
            return f"{self.exchange.method} {self.exchange.target.partition('?')[0]}"
        tool = self.tried.tool if isinstance(self.tried, ToolTry) else "a request to the model"
        calls = (
            f"{method} {path}"
            for name, method, path in (self.link.tools if self.link else ())
            if name == tool
        )
        return next(calls, tool)

    @property
    def method(self) -> str:
        if self.exchange is not None and self.exchange.tool:
            return self.exchange.method
        first = self.name.partition(" ")[0]
        return first if first.isupper() else ""

    @property
    def is_read(self) -> bool:
        is_message = self.exchange is not None and self.exchange.message != "" and not self.exchange.tool
        return is_message or self.method in ("GET", "HEAD", "OPTIONS")

    @property
    def is_write(self) -> bool:
        """Whether it is declared as one that changes state."""
        exchange = self.exchange
        declared = bool(
            exchange and self.link and self.link.is_write(exchange.method, exchange.target, exchange.tool)
        )
        by_caller = isinstance(self.tried, ToolTry) and self.tried.write
        return declared or by_caller or bool(exchange and exchange.write)

    @property
    def same(self) -> SameKey | None:
        """Equal for requests of one attempt that ask for the same; None where that is not known."""
        exchange = self.exchange
        if not self.of_model:
            record = exchange or self.tried
            assert isinstance(record, Exchange | ToolTry)
            return (self.attempt, self.link_name, record.fingerprint) if record.fingerprint else None
        if isinstance(self.tried, ModelCall):
            return self.attempt, self.link_name, f"request {self.tried.ordinal}"
        if exchange and exchange.identity == "baggage":
            return self.attempt, self.link_name, f"request {exchange.call}"
        if exchange and exchange.request_body and not exchange.request_cut:
            return self.attempt, self.link_name, exchange.request_body
        return None

    @property
    def key(self) -> str | None:
        """By what its upstream knows a repetition, empty without any; None in a history that does not say."""
        if isinstance(self.tried, ToolTry):
            return self.tried.idempotency_key or ""
        return self.exchange.key if self.exchange and self.exchange.dialect else None

    @property
    def reply_lost(self) -> bool | None:
        """Whether the caller got no whole reply; None where that is not known."""
        if self.tried is not None:
            return error_kind(self.tried.error) in ("timeout", "refused", "closed", "reset")
        assert self.exchange is not None
        if self.exchange.client_left or not self.exchange.reply_complete:
            return True
        return self.replies_are_lost

    @property
    def status(self) -> int | None:
        """Of the reply that the caller got; None if it got none, or nobody knows."""
        if self.reply_lost is not False:
            return None
        return self.tried.status if self.tried else self._of_gateway

    @property
    def succeeded(self) -> bool:
        """Whether the caller got a good reply."""
        bad = self.tried is not None and self.tried.error is not None
        return not bad and self.status is not None and self.status < 400

    @property
    def _of_gateway(self) -> int | None:
        return self.exchange.status if self.exchange else None

    @property
    def executed(self) -> Executed:
        """Whether the upstream did what was asked: by its own answer, whatever the caller saw of it."""
        exchange = self.exchange
        if exchange is None:
            return self._executed_past_gateway
        if not exchange.forwarded:
            return "no"
        return _EXECUTED[fate_of(self.answered, exchange.tool_answer if exchange.tool else None)]

    @property
    def tool_failed(self) -> bool:
        """Whether a tool of MCP itself answered by an error, of which only its text says why."""
        return self.exchange is not None and self.exchange.tool_answer == "error"

    @property
    def answered(self) -> int | None:
        """The status that the upstream gave, whatever came of it; None if it gave none, or nobody knows."""
        if self.exchange is None or not self.exchange.forwarded:
            return None
        told = [met.evidence.get("upstream_status") for met in self.exchange.faults]
        return next((status for status in told if isinstance(status, int)), self.exchange.status)

    @property
    def _executed_past_gateway(self) -> Executed:
        if not isinstance(self.tried, ToolTry) or self.tried.route == "proxy":
            return "no"  # nothing of it came as far as the gateway, which is before the upstream
        if self.tried.status is None or self.tried.status >= 500:
            return "maybe"
        return "yes" if self.tried.status < 400 else "no"

    @property
    def faults(self) -> frozenset[str]:
        """The kinds of faults that the gateway injected into it."""
        return (
            frozenset(met.kind for met in self.exchange.faults if met.injected)
            if self.exchange
            else frozenset()
        )

    @property
    def _record(self) -> Exchange | ToolTry | ModelCall:
        record = self.exchange or self.tried
        assert record is not None
        return record


def span_in_words(span: float) -> str:
    """A span of time for a sentence: ``0.4 s``, ``12 ms``."""
    return f"{span:.1f} s" if span >= 0.1 else f"{max(span, 0) * 1000:.0f} ms"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
