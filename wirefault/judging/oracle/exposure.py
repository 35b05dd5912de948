"""Determine whether a fault touched a value or a call that the oracle names. Pure.

A fault on another call, or on another field of a reply, does not test the prompt. If the history does not
have the texts, the fault counts as touching. So does every fault on a model link, since every answer passes
it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from wirefault.dialects.http import SAFE_METHODS
from wirefault.history.events import Exchange, FaultMet, ToolCalled
from wirefault.history.judged_events import FaultRecord
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.oracle.tool_results import holds_value, readable_result
from wirefault.judging.oracle.wire_world import is_call
from wirefault.judging.trace import EpisodeTrace
from wirefault.wiring.links import lab_links


class AskedAbout:
    """Compares the faults of one episode with the calls and values of its oracle."""

    def __init__(self, oracle: Oracle, trace: EpisodeTrace) -> None:
        self._oracle = oracle
        self._trace = trace
        self._exchanges = trace.exchanges
        self._results: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for call in trace.all(ToolCalled):
            if call.ok:
                self._results[call.link, call.fingerprint].append(readable_result(call.result))
        self._slots = [*oracle.values, *(oracle.answer.slots() if oracle.answer else ())]

    @cached_property
    def _any_reply_has_value(self) -> bool:
        """Whether any tool reply has the value; if none has, the value is derived from them."""
        return any(self._has_value(text) for each in self._exchanges for text in self._reply_texts(each))

    def is_touched(self, record: FaultRecord, exchange: Exchange | None, fault: FaultMet | None) -> bool:
        """Whether this fault touched the oracle's calls or values. A toxic (no exchange) acts on its link."""
        crossing = [e for e in self._exchanges if (e.attempt, e.link) == (record.attempt, record.link)]
        struck = crossing if exchange is None else [exchange]
        if not struck or any(each.of_model for each in struck):
            return True
        if any(self._is_asked_call(each) for each in struck):
            return True
        if exchange is None and self._may_hide_asked_call(record):
            return True
        if not self._asks_value:
            return False
        changed = _changed_texts(fault)
        if changed:
            return any(map(self._has_value, changed)) or not self._any_reply_has_value
        return any(self._may_have_value(each) for each in struck)

    @property
    def _asks_value(self) -> bool:
        return bool(self._oracle.values) or self._oracle.answer is not None

    @cached_property
    def _effect_links(self) -> frozenset[str]:
        """The lab's links whose side effects the oracle names."""
        kinds = {effect.kind for effect in (*self._oracle.effects, *self._oracle.none_of)}
        return frozenset(link.name for link in lab_links() if kinds & link.effects.keys())

    def _is_asked_call(self, exchange: Exchange) -> bool:
        oracle = self._oracle
        if any(is_call(request, exchange) for request in oracle.requests or ()):
            return True
        writes = bool(exchange.tool) if exchange.message else exchange.method not in SAFE_METHODS
        return writes and (oracle.expects_state or exchange.link in self._effect_links)

    def _may_hide_asked_call(self, toxic: FaultRecord) -> bool:
        """Whether a toxic may have stopped such a request before the gateway."""
        if toxic.link not in self._trace.hidden_links:
            return False
        unseen = any(
            each.exchange is None and not each.direct
            for each in self._trace.tries
            if (each.attempt, each.link_name) == (toxic.attempt, toxic.link)
        )
        if self._trace.keeps_record and not unseen:
            return False
        request_links = {request.link for request in self._oracle.requests or ()}
        is_asked_link = toxic.link in self._effect_links | request_links
        return is_asked_link or self._oracle.expects_state or self._asks_value

    def _may_have_value(self, exchange: Exchange) -> bool:
        """Whether the reply has the value or a source of it, or may have had one."""
        texts = list(self._reply_texts(exchange))
        if any(map(self._has_value, texts)):
            return True
        return not texts or not self._any_reply_has_value

    def _has_value(self, text: str) -> bool:
        # an oracle with only patterns or JSON has no values to search for
        return not self._slots or any(holds_value(slot, text) for slot in self._slots)

    def _reply_texts(self, exchange: Exchange) -> Iterator[str]:
        """The known complete texts of the reply, before and after faults."""
        if exchange.of_model:
            return
        if exchange.reply_body and not exchange.reply_cut:
            yield readable_result(exchange.reply_body)
        struck = exchange.faulted_reply
        if struck is not None and struck.upstream_reply and not struck.upstream_reply_cut:
            yield readable_result(struck.upstream_reply)
        yield from self._results.get((exchange.link, exchange.fingerprint), ())


def _changed_texts(fault: FaultMet | None) -> Sequence[str]:
    """The text that a fault replaced, and the new text; empty unless its record has both in full."""
    if fault is None or not fault.content or not {"original", "changed"} <= fault.evidence.keys():
        return ()
    changes = [fault.evidence, *fault.evidence.get("further", ())]
    return [
        json.dumps(change[side], ensure_ascii=False)
        for change in changes
        if isinstance(change, dict)
        for side in ("original", "changed")
        if side in change
    ]
