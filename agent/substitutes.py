"""The strategies ``verify`` and ``fallback``: an answer from elsewhere after a tool failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.calls import Ask, Call, own_call, try_call
from agent.exchange import LoopRefused, NoReply, ServiceFailed, ServiceRefused, ToolFailure, Unverified
from agent.tools import BY_NAME, ToolRequest
from wirefault.recovery import strategies
from wirefault.recovery.recipes import NotVerified, verify_after_write


def verified(strategy: strategies.Verify, ask: Ask, sleep: Callable[[float], None]) -> Ask:
    """After a write whose reply was lost, read the state; only a write that it does not show has failed."""

    def make(call: Call) -> str:
        read_back = _READ_BACK.get(call.tool.name)
        if read_back is None or not call.write:
            return ask(call)
        start = 0.0
        reads = 0

        def read() -> str | None:
            nonlocal start, reads
            start = start or call.attempt.clock()
            reads += 1
            try:
                return read_back(call, reads)
            except ToolFailure as failure:  # not to be retried: that would write again
                raise Unverified(f"unverified_{failure.cause}") from None

        try:
            answer = verify_after_write(
                lambda: ask(call),
                read,
                (NoReply, ServiceFailed),
                reads=strategy.reads,
                pause=strategy.pause,
                sleep=sleep,
            )
        except NotVerified as error:
            _record(call, False, start, "the state does not show the write")
            assert error.__cause__ is not None
            raise error.__cause__ from None
        except Unverified:
            _record(call, False, start, "the state could not be read")
            raise
        if reads:
            _record(call, True, start, "the state shows the write")
        return answer

    def _record(call: Call, success: bool, start: float, detail: str) -> None:
        preserved = "the write whose reply was lost" if success else ""
        seconds = call.attempt.clock() - start
        call.attempt.record_recovery(
            "verify", success, seconds, call=call, preserved=preserved, detail=detail
        )

    return make


def _read_event(call: Call, number: int) -> str | None:
    wanted = {name: call.arguments[name] for name in ("title", "date", "time")}
    return _verified_answer({"event": wanted}) if wanted in _events(call, number) else None


def _read_deletion(call: Call, number: int) -> str | None:
    gone = not _events(call, number)
    return _verified_answer({"date": call.arguments["date"]}) if gone else None


def _events(call: Call, number: int) -> list[dict[str, Any]]:
    request = BY_NAME["get_event"].request_for({"date": call.arguments["date"]})
    events: list[dict[str, Any]] = _own_read(call, request, number)["events"]
    return events


def _read_message(call: Call, number: int) -> str | None:
    wanted = {name: call.arguments[name] for name in ("to", "body")}
    visible = wanted in _own_read(call, ToolRequest("GET", "/sent"), number)["messages"]
    return _verified_answer({"status": "sent", "message": wanted}) if visible else None


def _own_read(call: Call, request: ToolRequest, number: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(try_call(own_call(call, call.tool, request, number)))
    return content


def _verified_answer(content: Mapping[str, Any]) -> str:
    return json.dumps({**content, "verified": "The reply was lost; the state shows it."}, ensure_ascii=False)


# how the state shows the write of each tool that writes
_READ_BACK: Mapping[str, Callable[[Call, int], str | None]] = {
    "add_event": _read_event,
    "delete_event_by_date": _read_deletion,
    "send_message": _read_message,
}


class Fallback:
    """Answer by something else after the last failure; the answer says so.

    Another way serves every call, another tool and old or degraded answers serve reads alone.
    """

    def __init__(self, strategy: strategies.Fallback, ask: Ask) -> None:
        self._strategy = strategy
        self._ask = ask
        self._last_good: dict[tuple[str, str], str] = {}  # by tool and request, for as long as the run lasts

    def __call__(self, call: Call) -> str:
        start = call.attempt.clock()
        try:
            answer = self._ask(call)
        except ToolFailure as failure:
            if isinstance(failure, ServiceRefused | LoopRefused):
                raise
            for detail, preserved, substitute in self._substitutes():
                success = False
                try:
                    if (other := substitute(call)) is not None:
                        success = True
                        return other
                except ToolFailure:
                    continue  # the next one may help
                finally:
                    seconds = call.attempt.clock() - start
                    preserved = preserved if success else ""
                    call.attempt.record_recovery(
                        "fallback", success, seconds, call=call, preserved=preserved, detail=detail
                    )
            raise
        if not call.write:
            self._last_good[call.tool.name, call.fingerprint] = answer
        return answer

    def _substitutes(self) -> Iterator[tuple[str, str, Callable[[Call], str | None]]]:
        """Yield each way to answer, with what it is and what it preserves."""
        if self._strategy.tool == "direct":
            yield "past the proxy", "the answer", self._direct
        if self._strategy.tool == "search":
            yield "another tool", "a part of the answer", self._search
        if self._strategy.answer == "last_good":
            yield "last good answer", "an old answer", self._old_answer
        if self._strategy.answer == "degraded":
            yield "degraded answer", "the other parts of the task", self._degraded

    def _direct(self, call: Call) -> str:
        call.fallback_used = True
        return try_call(call, "direct")

    def _search(self, call: Call) -> str | None:
        tool = BY_NAME["search_web"]
        if call.write or call.tool is tool:
            return None
        words = [call.tool.name.removeprefix("get_").removeprefix("search_"), *call.arguments.values()]
        request = tool.request_for({"query": " ".join(map(str, words))})
        content = json.loads(try_call(own_call(call, tool, request, 1)))
        return json.dumps({"note": f"{call.tool.name} failed. This is a web search.", **content})

    def _old_answer(self, call: Call) -> str | None:
        last = self._last_good.get((call.tool.name, call.fingerprint))
        if last is None:
            return None
        note = "The tool failed. This is its last good answer, which may be out of date."
        return json.dumps({"stale": True, "note": note, **json.loads(last)}, ensure_ascii=False)

    def _degraded(self, call: Call) -> str | None:
        if call.write:
            return None
        note = f"{call.tool.name} has no data now. Finish the other parts of the task, and mention it."
        return json.dumps({"degraded": True, "note": note})
