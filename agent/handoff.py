"""The strategy ``handoff``: a person decides whether a call is made again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.calls import Ask, Call
from agent.exchange import Denied, HandedOver, ToolFailure
from agent.middleware import check_time
from wirefault.recovery import strategies
from wirefault.recovery.approvals import ApprovalRule, Approvals
from wirefault.state.handoffs import HandoffQueue

_POLL_S = 0.05


@dataclass
class HandoffDesk:
    """The queue of a run and the answers by rule."""

    queue: HandoffQueue
    approvals: Approvals


def handed_over(
    strategy: strategies.Handoff, ask: Ask, desk: HandoffDesk, sleep: Callable[[float], None]
) -> Ask:
    """Ask a person about a call that failed to the end, and wait for the answer.

    An approved call is made again with the same key; a denied one fails. Without an answer in time it ends as
    ``on_timeout`` says.
    """

    def make(call: Call) -> str:
        try:
            return ask(call)
        except ToolFailure as failure:
            reason = "unknown_effect" if call.side_effect == "unknown" else "exhausted"
            if reason == "exhausted" and not failure.retryable:
                raise
            start = call.attempt.clock()
            decision, by = _decision(call, failure, reason, strategy, desk, sleep)
            return _carry_out(call, failure, decision, f"{reason}: {by}", start)

    def _carry_out(call: Call, failure: ToolFailure, decision: str, detail: str, start: float) -> str:
        success, preserved = False, ""
        try:
            if decision in ("approve", "proceed"):
                answer = ask(call)
                success, preserved = True, "idempotency key" if call.idempotency_key else ""
                return answer
            if decision == "degrade" and not call.write:
                success, preserved = True, "the other parts of the task"
                return _degraded(call)
            kind = HandedOver if decision == "degrade" else Denied
            raise kind(f"handoff_{failure.cause}") from failure
        finally:
            seconds = call.attempt.clock() - start
            call.attempt.record_recovery(
                "handoff", success, seconds, call=call, preserved=preserved, detail=detail
            )

    return make


def _decision(
    call: Call,
    failure: ToolFailure,
    reason: str,
    strategy: strategies.Handoff,
    desk: HandoffDesk,
    sleep: Callable[[float], None],
) -> tuple[str, str]:
    """Return ``approve``, ``deny`` or the setting ``on_timeout``, and in words who decided.

    Raises ``LimitReached`` if the attempt's time ends first.
    """
    attempt, identity, tool = call.attempt, call.attempt.context.identity, call.tool.name
    begun = attempt.clock()
    now = time.time()
    id = desk.queue.put(
        (identity.run, identity.episode, identity.attempt),
        *(tool, call.arguments, reason, failure.cause, now, now + strategy.wait),
    )
    rule = desk.approvals.answer_to(tool, reason)
    while True:
        passed = attempt.clock() - begun
        if rule and passed >= rule[0].after:
            _answer_by_rule(desk.queue, id, *rule)
            rule = None
        case = desk.queue.get(id)
        if case is not None and case.decision is not None:
            done = "approved" if case.decision == "approve" else "denied"
            return case.decision, f"{done} by {case.decided_by}"
        if passed >= strategy.wait:
            return strategy.on_timeout, f"no answer in {strategy.wait:g} s, {strategy.on_timeout}"
        check_time()
        sleep(min(_POLL_S, strategy.wait - passed))


def _answer_by_rule(queue: HandoffQueue, id: int, rule: ApprovalRule, name: str) -> None:
    if rule.answer != "never":
        queue.decide(id, rule.answer, name, time.time())


def _degraded(call: Call) -> str:
    note = f"{call.tool.name} failed, and a person has the case. Finish the other parts, and mention it."
    return json.dumps({"degraded": True, "note": note})
