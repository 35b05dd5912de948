"""The catalogue of connection faults: one small file for each kind. Pure; imports nothing of ours."""

from __future__ import annotations

from windtunnel.core.spelling import nearest
from windtunnel.toxiproxy.toxics.bandwidth import Bandwidth
from windtunnel.toxiproxy.toxics.base import STREAMS, Attribute, ObservedTry, Toxic
from windtunnel.toxiproxy.toxics.down import Down
from windtunnel.toxiproxy.toxics.latency import Latency
from windtunnel.toxiproxy.toxics.limit_data import LimitData
from windtunnel.toxiproxy.toxics.reset_peer import ResetPeer
from windtunnel.toxiproxy.toxics.slicer import Slicer
from windtunnel.toxiproxy.toxics.slow_close import SlowClose
from windtunnel.toxiproxy.toxics.spec import ToxicSpec, parse, parse_list, streams_of
from windtunnel.toxiproxy.toxics.timeout import Timeout

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
    "ObservedTry",
    "Toxic",
    "ToxicSpec",
    "nearest",
    "parse",
    "parse_list",
    "streams_of",
    "toxic",
]
