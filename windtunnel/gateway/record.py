"""A turn as a line of the run's history."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING

from windtunnel.events import FaultMet
from windtunnel.gateway.plan import Plan

if TYPE_CHECKING:
    from windtunnel.gateway.turn import Turn

_BOOL = ("false", "true")


def exchange_line(turn: Turn) -> str:
    """``windtunnel.events.Exchange`` as JSON, made by hand: every request pays for it."""
    head, started = turn.head, time.time() - (time.perf_counter() - turn.began)
    faults = _faults(turn.plan) if turn.plan else "[]"
    aimed = json.dumps(turn.aimed, ensure_ascii=False) if turn.aimed else "[]"
    return (
        f'{{"start":{started:.6f},{turn.named},"link":"{turn.link}","method":{_quote(head.method)}'
        f',"target":{_quote(head.target)},"fingerprint":"{turn.fingerprint}"'
        f',"call":{turn.call},"try_":{turn.try_},"identity":"{turn.identity}"'
        f',"ms":{(turn.ended - turn.began) * 1000:.3f},"status":{turn.status or "null"}'
        f',"request_complete":{_BOOL[turn.request_done]},"reply_complete":{_BOOL[turn.reply_done]}'
        f',"forwarded":{_BOOL[turn.forwarded]},"request_bytes":{turn.request_bytes}'
        f',"reply_bytes":{turn.reply_bytes},"faults":{faults},"aimed":{aimed},"configuration":{turn.configuration}'
        f',"error":{"null" if turn.error is None else _quote(turn.error)},"event":"exchange"}}'
    )


def _faults(plan: Plan) -> str:
    met: list[FaultMet] = [met.record() for met in plan.mets]
    return json.dumps([asdict(one) for one in met], ensure_ascii=False)
