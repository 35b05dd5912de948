"""Whether a lab has taken back what it did: no toxic is desired any more, and none is observed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wirefault.core.user_errors import InputError
from wirefault.state.state import State
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.wiring.topology import Topology

VERIFIED = "verified"
# a manager heals for a run that was killed once its heartbeat is 2 s old
_BOUND_S = 8.0
_POLL_S = 0.1


def verify_rollback(
    lanes: Sequence[Topology],
    state: Path,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """``verified``, or why it cannot be said that all of the lab's toxics are gone."""
    end = clock() + _BOUND_S
    while (problem := _left(lanes, state)) and clock() < end:
        sleep(_POLL_S)
    return problem or VERIFIED


def _left(lanes: Sequence[Topology], state: Path) -> str:
    try:
        store = State(state)
        try:
            desired = sum(store.toxics.left(lane.lab_id, lane.lane) for lane in lanes)
        finally:
            store.close()
        with ToxiproxyClient(lanes[0].toxiproxy) as toxiproxy:
            proxies = toxiproxy.proxies()
    except (sqlite3.Error, InputError, ToxiproxyError) as error:
        return f"not verified: {error}"
    names = {lane.proxy_name(link) for lane in lanes for link in lane.links.names}
    observed = [toxic.name for name in names & proxies.keys() for toxic in proxies[name].toxics]
    if desired or observed:
        return f"not verified: {desired} toxics desired, {len(observed)} observed"
    return ""
