"""What each toxic does on the wire.

To add one: a file beside these with one ``Stage``, and its class in ``STAGES``.
"""

from __future__ import annotations

from proxy_manager.embedded.toxics.bandwidth import Bandwidth
from proxy_manager.embedded.toxics.base import Stage
from proxy_manager.embedded.toxics.latency import Latency
from proxy_manager.embedded.toxics.limit_data import LimitData
from proxy_manager.embedded.toxics.noop import Noop
from proxy_manager.embedded.toxics.reset_peer import ResetPeer
from proxy_manager.embedded.toxics.slicer import Slicer
from proxy_manager.embedded.toxics.slow_close import SlowClose
from proxy_manager.embedded.toxics.timeout import Timeout

STAGES: dict[str, type[Stage]] = {
    stage.kind: stage
    for stage in (Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Noop)
}

__all__ = ["STAGES", "Stage"]
