"""Access to the lab's control APIs: the lab's token, JSON only, and no web page of another origin."""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from wirefault.core.files import UnsafeFileError, open_shared

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_DESCRIPTOR = "WIREFAULT_TOKEN_FD"
TOKEN_FILE = "WIREFAULT_TOKEN_FILE"
"""Set by Compose: a file with the token, on a volume that only the processes that use it mount."""
_MAX_TOKEN = 256
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


def draw_token() -> str:
    return secrets.token_hex(32)


def token_descriptor(token: str) -> int:
    """Return the descriptor of a nameless file with the token, for processes to inherit."""
    return secret_descriptor("token", token.encode())


def secret_descriptor(name: str, secret: bytes) -> int:
    """Return the descriptor of a nameless file with the secret; ``name`` is only for debugging."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.write(descriptor, secret)
    return descriptor


def inherited_token(environ: Mapping[str, str]) -> str:
    """Return the launcher's token. Raises ``ValueError`` if it is missing, or ``OSError``."""
    if environ.get(TOKEN_DESCRIPTOR):
        return os.pread(int(environ[TOKEN_DESCRIPTOR]), _MAX_TOKEN, 0).decode("ascii")
    if environ.get(TOKEN_FILE):
        return shared_secret(Path(environ[TOKEN_FILE]))
    raise ValueError(f"missing the lab's token: neither {TOKEN_DESCRIPTOR} nor {TOKEN_FILE} is set")


def own_secret(root: Path, path: Path) -> str:
    """Return the secret of a file below the shared folder ``root`` that only this user can read.

    The first call draws it. Raises ``UnsafeFileError`` for a file that others own or read, or ``OSError``.
    """
    descriptor = open_shared(root, path, os.O_RDWR | os.O_CREAT, 0o600)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or status.st_size > _MAX_TOKEN:
        os.close(descriptor)
        raise UnsafeFileError(
            f"{path} is not a token that only you can read: refusing to use it. Inspect it and move it away"
        )
    return _secret_in(descriptor)


def shared_secret(path: Path) -> str:
    """Return the file's secret; the first of several processes draws it. Raises ``OSError``."""
    return _secret_in(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _secret_in(descriptor: int) -> str:
    """Return the secret of a file, drawn if it is empty, and close it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, draw_token().encode())
        return os.pread(descriptor, _MAX_TOKEN, 0).decode("ascii")
    finally:
        os.close(descriptor)


def bearer(token: str) -> dict[str, str]:
    """Return the ``Authorization`` header with the token."""
    return {"Authorization": f"Bearer {token}"}


def has_token(authorization: str, token: str) -> bool:
    """Return whether an ``Authorization`` header has the token; always False for an empty token."""
    scheme, _, received = authorization.partition(" ")
    same = hmac.compare_digest(received.strip().encode(), token.encode())
    return bool(token) and scheme.lower() == "bearer" and same


@dataclass(frozen=True)
class Refusal:
    """The HTTP error for a refused request."""

    status: int
    code: str
    message: str


@dataclass(frozen=True)
class ControlAccess:
    """Decides which requests reach a control API."""

    token: str
    # names of this server, in addition to loopback's
    hosts: Collection[str]
    # paths that can be read without the token
    public: Collection[str] = ()

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why the request is refused, None if it may pass. Header names are in lower case.

        A foreign ``Host`` is a sign of DNS rebinding, a foreign ``Origin`` of a page of another site.
        """
        host = headers.get("host", "")
        if _parts(f"//{host}").hostname not in _LOOPBACK_NAMES | set(self.hosts):
            return Refusal(403, "foreign_host", f"not meant for this lab: Host {host!r}")
        origin = headers.get("origin")
        if origin is not None and _parts(origin).netloc != host:
            return Refusal(403, "foreign_origin", f"a page of {origin!r} may not use this lab")
        reads = method in ("GET", "HEAD")
        if reads and path in self.public:
            return None
        if not has_token(headers.get("authorization", ""), self.token):
            return Refusal(401, "token", "send the lab's token: Authorization: Bearer TOKEN")
        if (
            not reads
            and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json"
        ):
            return Refusal(415, "not_json", "send Content-Type: application/json")
        return None


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL; empty parts for an invalid one."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def guarded(app: ASGIApp, access: ControlAccess) -> ASGIApp:
    """Return the ASGI app behind the access check; refusals have the lab's error format."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            refused = access.refusal(scope["method"], scope["path"], headers)
            if refused is not None:
                body = json.dumps({"error": {"code": refused.code, "message": refused.message}}).encode()
                named = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
                await send({"type": "http.response.start", "status": refused.status, "headers": named})
                await send({"type": "http.response.body", "body": body})
                return
        await app(scope, receive, send)

    return serve
