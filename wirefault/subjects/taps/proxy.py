"""The proxy tap: variables that lead most clients to the front, and a preload that leads Node there."""

from __future__ import annotations

from pathlib import Path

from wirefault.core.sockets import Address
from wirefault.subjects.taps.tap import PROXY_VARIABLES, Tap
from wirefault.subjects.taps.trust import Trust, quoted

PRELOAD = Path(__file__).with_name("preload.cjs")
_FRONT_VARIABLE = "WIREFAULT_TAP"  # preload.cjs reads it
_SET = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_ESCAPES = (
    "what ignores proxy variables goes past the lab: Python's raw urllib3 and aiohttp by default, Go to"
    " loopback addresses, servers that MCP clients start"
)
_UNWATCHED = "; this system does not tell whether anything does"
_NOT_OFFLINE = "--offline does not hold for what goes past the lab: only the namespace tap keeps that back"


def proxy_tap(
    front: Address, trust: Trust, reason: str = "", *, watched: bool = False, offline: bool = False
) -> Tap:
    """A tap for the front at that address. ``reason``: why not the namespace tap; empty if asked for.

    ``watched``: somebody looks for what goes past it. ``offline``: the subject is to reach nothing outside.
    """
    java = (
        f"-Dhttp.proxyHost={front.host} -Dhttp.proxyPort={front.port}"
        f" -Dhttps.proxyHost={front.host} -Dhttps.proxyPort={front.port} -Dhttp.nonProxyHosts="
    )
    return Tap(
        kind="proxy",
        reason=reason,
        watched=watched,
        escapes="" if watched else _ESCAPES + _UNWATCHED,
        not_kept=_NOT_OFFLINE if offline else "",
        variables={**dict.fromkeys(_SET, front.url), **trust.variables, _FRONT_VARIABLE: str(front)},
        appended={
            "NODE_OPTIONS": f"--require {quoted(PRELOAD)}",
            "JAVA_TOOL_OPTIONS": f"{java} {trust.java_options}".rstrip(),
        },
        removed=PROXY_VARIABLES,  # NO_PROXY among them
    )
