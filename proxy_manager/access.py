"""Who may change something over the manager's HTTP API."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import urlsplit

from flask import Request

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class Refused(Exception):
    """A request that is not carried out: rendered as the lab's one shape of an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def check(request: Request, token: str, hosts: Collection[str]) -> None:
    """Raises ``Refused`` unless it has the token and a JSON type, is meant for this host, and no page of
    another origin sent it (a browser sends ``Origin``; a name that was made to point here, its own ``Host``).
    """
    if _name(request.host) not in LOOPBACK_NAMES | set(hosts):
        raise Refused(403, "foreign_host", f"not meant for this lab: Host {request.host!r}")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Refused(403, "foreign_origin", f"a page of {origin!r} may not change this lab")
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise Refused(401, "token", "send Authorization: Bearer with the token of the file token in state/")
    if request.mimetype != "application/json":
        raise Refused(415, "not_json", "send Content-Type: application/json")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
