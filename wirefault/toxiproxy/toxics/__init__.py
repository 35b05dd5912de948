"""The catalogue of toxics, one file each: attributes, units, signature and pipe.

To add one, write its file and list it in ``TOXICS``: see docs/extending.md. The settings import this
package, so it must stay cheap to import.
"""

from __future__ import annotations

from wirefault.core.errors import nearest
from wirefault.toxiproxy.toxics.bandwidth import BandwidthToxic
from wirefault.toxiproxy.toxics.base import Toxic
from wirefault.toxiproxy.toxics.cut_after import CutAfterToxic
from wirefault.toxiproxy.toxics.down import DownToxic
from wirefault.toxiproxy.toxics.latency import LatencyToxic
from wirefault.toxiproxy.toxics.limit_data import LimitDataToxic
from wirefault.toxiproxy.toxics.noop import NoopToxic
from wirefault.toxiproxy.toxics.reset_peer import ResetToxic
from wirefault.toxiproxy.toxics.shared_bandwidth import SharedBandwidthToxic
from wirefault.toxiproxy.toxics.slicer import SlicerToxic
from wirefault.toxiproxy.toxics.slow_close import SlowCloseToxic
from wirefault.toxiproxy.toxics.timeout import TimeoutToxic
from wirefault.toxiproxy.toxics.unaccepted import UnacceptedToxic
from wirefault.toxiproxy.toxics.unresolved import UnresolvedToxic

TOXICS: tuple[Toxic, ...] = (
    LatencyToxic(),
    BandwidthToxic(),
    SlowCloseToxic(),
    TimeoutToxic(),
    ResetToxic(),
    SlicerToxic(),
    LimitDataToxic(),
    CutAfterToxic(),
    SharedBandwidthToxic(),
    UnacceptedToxic(),
    UnresolvedToxic(),
    DownToxic(),
)

# The toxics that a server accepts over its API, by kind.
SERVER_TOXICS: dict[str, Toxic] = {toxic.kind: toxic for toxic in (*TOXICS, NoopToxic()) if toxic.of_server}

DOWN = DownToxic.kind
UNRESOLVED = UnresolvedToxic.kind
_BY_KIND = {toxic.kind: toxic for toxic in TOXICS}


def toxic(kind: str) -> Toxic:
    """Return the toxic of that kind; raises ``ValueError`` that names the nearest valid one."""
    try:
        return _BY_KIND[kind]
    except KeyError:
        raise ValueError(f"unknown toxic {kind!r}{nearest(kind, _BY_KIND)}") from None
