"""The toxics that the embedded server has, and those that only the real one has so far.

To add one: a file beside these with one ``Stage``, and its class in ``STAGES``.
"""

from __future__ import annotations

from proxy_manager.embedded.toxics.base import Stage
from proxy_manager.embedded.toxics.latency import Latency
from proxy_manager.embedded.toxics.reset_peer import ResetPeer
from proxy_manager.embedded.toxics.timeout import Timeout

STAGES: dict[str, type[Stage]] = {stage.kind: stage for stage in (Latency, Timeout, ResetPeer)}

__all__ = ["STAGES", "Stage"]
