"""Who may change something over the manager's HTTP API."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import urlsplit

from flask import Request

_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class ChangeRefused(Exception):
    """A request that is not carried out; rendered in the form that all errors of the lab have."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def check_access(request: Request, token: str, hosts: Collection[str]) -> None:
    """Raises ``ChangeRefused`` unless the request has the token and a JSON type and is meant for this host.

    A page of another origin must not send it: a browser tells the page's ``Origin``, and where a foreign name
    was made to point here, that name as ``Host``.
    """
    if _name(request.host) not in _LOOPBACK_NAMES | set(hosts):
        raise ChangeRefused(403, "foreign_host", f"not meant for this lab: Host {request.host!r}")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise ChangeRefused(403, "foreign_origin", f"a page of {origin!r} may not change this lab")
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise ChangeRefused(
            401, "token", "send Authorization: Bearer with the token of the file token in state/"
        )
    if request.mimetype != "application/json":
        raise ChangeRefused(415, "not_json", "send Content-Type: application/json")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
