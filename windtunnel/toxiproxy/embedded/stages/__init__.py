"""What each toxic does on the wire.

To add one: a file beside these with one ``Stage``, and its class in ``STAGES``.
"""

from __future__ import annotations

from windtunnel.toxiproxy.embedded.stages.bandwidth import Bandwidth
from windtunnel.toxiproxy.embedded.stages.base import Stage
from windtunnel.toxiproxy.embedded.stages.latency import Latency
from windtunnel.toxiproxy.embedded.stages.limit_data import LimitData
from windtunnel.toxiproxy.embedded.stages.noop import Noop
from windtunnel.toxiproxy.embedded.stages.reset_peer import ResetPeer
from windtunnel.toxiproxy.embedded.stages.slicer import Slicer
from windtunnel.toxiproxy.embedded.stages.slow_close import SlowClose
from windtunnel.toxiproxy.embedded.stages.timeout import Timeout

STAGES: dict[str, type[Stage]] = {
    stage.kind: stage
    for stage in (Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Noop)
}

__all__ = ["STAGES", "Stage"]
