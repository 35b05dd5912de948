"""The catalogue of connection faults: one small file for each kind. Pure; imports nothing of ours."""

from __future__ import annotations

from proxy_manager.toxics.bandwidth import Bandwidth
from proxy_manager.toxics.base import STREAMS, Attribute, Sighting, Toxic
from proxy_manager.toxics.down import Down
from proxy_manager.toxics.latency import Latency
from proxy_manager.toxics.limit_data import LimitData
from proxy_manager.toxics.nearest import nearest
from proxy_manager.toxics.reset_peer import ResetPeer
from proxy_manager.toxics.slicer import Slicer
from proxy_manager.toxics.slow_close import SlowClose
from proxy_manager.toxics.spec import ToxicSpec, parse, parse_list, streams_of
from proxy_manager.toxics.timeout import Timeout

TOXICS: tuple[Toxic, ...] = (
    Latency(),
    Bandwidth(),
    SlowClose(),
    Timeout(),
    ResetPeer(),
    Slicer(),
    LimitData(),
    Down(),
)

_BY_KIND = {toxic.kind: toxic for toxic in TOXICS}


def toxic(kind: str) -> Toxic:
    """The toxic of that kind; raises ``ValueError`` that names the nearest valid one."""
    try:
        return _BY_KIND[kind]
    except KeyError:
        raise ValueError(f"no toxic is called {kind!r}{nearest(kind, _BY_KIND)}") from None


__all__ = [
    "STREAMS",
    "TOXICS",
    "Attribute",
    "Sighting",
    "Toxic",
    "ToxicSpec",
    "nearest",
    "parse",
    "parse_list",
    "streams_of",
    "toxic",
]
