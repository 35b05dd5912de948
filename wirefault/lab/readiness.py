"""Waiting until the processes of a lab answer."""

from __future__ import annotations

import time
from collections.abc import Callable

import requests

from wirefault.core.sockets import Address
from wirefault.lab.lab_processes import LabError

# patience for a busy machine: a process that ends is noticed at once
READY_BOUND_S = 60.0
# the system accepts a connection before its process runs: until then Ctrl-C waits for the question to end
_POLL_BOUND_S = 0.5


def wait_until(
    poll: Callable[[], bool | None],
    check: Callable[[], None],
    cancelled: Callable[[], bool],
    complaint: Callable[[], str] = str,
) -> bool:
    """Calls ``poll`` until it answers, and ``check`` in between, which raises ``LabError`` if a process ends.

    Raises ``LabError`` if it takes too long, with the ``complaint`` there is then, if any;
    ``KeyboardInterrupt`` once it is ``cancelled``.
    """
    end = time.monotonic() + READY_BOUND_S
    while (answer := poll()) is None:
        check()
        if cancelled():
            raise KeyboardInterrupt
        if time.monotonic() > end:
            said = complaint()
            raise LabError(f"the lab is not ready after {READY_BOUND_S:.0f} s{': ' if said else ''}{said}")
        time.sleep(0.01)
    return answer


def local_session() -> requests.Session:
    """A session that no proxy of the surroundings comes into."""
    session = requests.Session()
    session.trust_env = False
    return session


def answers(session: requests.Session, url: str) -> bool:
    """Whether something answers there, and well."""
    try:
        return session.get(url, timeout=_POLL_BOUND_S).status_code == 200
    except requests.RequestException:
        return False


def complaint_of(session: requests.Session, url: str) -> str:
    """Why nothing answers there well: the error that is said, or that there is none. Empty if one does."""
    try:
        reply = session.get(url, timeout=_POLL_BOUND_S)
        error = reply.json()["error"] if reply.status_code != 200 else None
    except requests.ConnectionError:
        return f"nothing answers at {url}"
    except (requests.RequestException, ValueError, LookupError, TypeError):
        return f"no good answer comes from {url}"
    return f"{url} says: {error}" if error else ""


def proxies_of(session: requests.Session, manager: Address) -> dict[str, Address] | None:
    """The addresses of the proxies that a manager has made, by link; None while it does not say them."""
    try:
        status = session.get(manager.url + "/status", timeout=_POLL_BOUND_S * 2).json()
    except (requests.RequestException, ValueError):
        return None
    return {link: Address.parse(text) for link, text in status["proxies"].items()}
