"""What everything that works on one lane works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy_manager.gateway_control import GatewayControl
from proxy_manager.manager_history import ManagerHistory
from proxy_manager.outages import Outages
from proxy_manager.proxies import LaneProxies
from wirefault.state.state import State


@dataclass(frozen=True)
class LaneParts:
    """``lab``: the lab's id and the lane's number. ``clock`` gives seconds since the epoch.

    ``outages``: which toxics of the attempt in progress stand.
    """

    state: State
    proxies: LaneProxies
    gateway: GatewayControl
    history: ManagerHistory
    lab: tuple[str, int]
    clock: Callable[[], float]
    outages: Outages
