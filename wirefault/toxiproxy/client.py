"""The client of a Toxiproxy server: the only module that uses toxiproxy-python, with its defects fixed.

The library sends through module-level ``requests`` to a class-level host and port, without timeouts, and
obeys HTTP_PROXY. Here it sends through the connection pool of the calling client, found by a context
variable. So one process can use several servers, and every reply is checked before the library reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import urllib3
from toxiproxy import Proxy, Toxiproxy
from toxiproxy import api as library

from wirefault.toxiproxy.answers import (
    Exists,
    ProxyState,
    Rejected,
    ToxicState,
    ToxiproxyNotFound,
    ToxiproxyServerError,
    Unreachable,
    field_of,
    proxy_state,
    same_listen,
    toxic_state,
)

_TIMEOUT_S = 2.0
_NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*")


@dataclass(frozen=True)
class _Reply:
    """The parts of a reply that toxiproxy-python reads."""

    status_code: int
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


_caller: ContextVar[ToxiproxyClient] = ContextVar("_caller")
_last_reply: ContextVar[_Reply] = ContextVar("_last_reply")


class _Wire:
    """Replaces ``requests`` inside toxiproxy-python: sends through the calling client."""

    def get(self, url: str, params: object = None) -> _Reply:
        return _caller.get().send("GET", urlsplit(url).path)

    def post(self, url: str, data: object = None, json: object = None) -> _Reply:
        return _caller.get().send("POST", urlsplit(url).path, json)

    def delete(self, url: str) -> _Reply:
        return _caller.get().send("DELETE", urlsplit(url).path)


library.requests = _Wire()


class ToxiproxyClient:
    """A client of one server, with kept-alive connections. Safe to share between threads.

    ``url`` is ``http://host:port``; ``timeout_s`` bounds each connect and each read. Every method raises
    ``ToxiproxyError``.
    """

    def __init__(self, url: str, timeout_s: float = _TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"Toxiproxy's URL must be http://host:port, not {url!r}; set TOXIPROXY_URL")
        self.url = f"http://{parts.netloc}"
        # urllib3 reads neither HTTP_PROXY nor .netrc, and checks whether a kept connection is still open.
        self._pool = urllib3.HTTPConnectionPool(
            parts.hostname,
            parts.port or 8474,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            maxsize=8,
            retries=False,
            headers={"User-Agent": "wirefault", "Content-Type": "application/json"},
        )

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> ToxiproxyClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def version(self) -> str:
        """The server's version, for example ``2.12.0``."""
        return str(field_of(self._json("GET", "/version"), "version"))

    def proxies(self) -> dict[str, ProxyState]:
        """All proxies with their toxics, by name."""
        answer = self._json("GET", "/proxies")
        return {str(name): proxy_state(fields) for name, fields in answer.items()}

    def proxy(self, name: str) -> ProxyState:
        return proxy_state(self._json("GET", f"/proxies/{_checked(name)}"))

    def ensure_proxy(
        self, name: str, listen: str, upstream: str, *, replace_taken: bool = False
    ) -> ProxyState:
        """Create, enable or recreate the proxy as needed; an existing proxy keeps its toxics.

        With ``replace_taken`` a listen port that is in use is replaced by a free one of the same host, and a
        proxy that already listens on another port of that host stays unchanged.
        """
        _checked(name)
        present = self.proxies().get(name)
        if present is not None:
            fits = same_listen(listen, present.listen, any_port=replace_taken)
            if fits and present.upstream == upstream:
                return present if present.enabled else self.set_enabled(name, True)
            self.delete_proxy(name)
        try:
            return self._create(name, listen, upstream)
        except ToxiproxyServerError as error:
            if not (replace_taken and "address already in use" in str(error)):
                raise
            return self._create(name, f"{listen.rpartition(':')[0]}:0", upstream)

    def delete_proxy(self, name: str) -> None:
        """Delete the proxy if it exists."""
        with suppress(ToxiproxyNotFound), self._calling():
            _handle(name).destroy()

    def set_enabled(self, name: str, enabled: bool) -> ProxyState:
        """Start or stops listening; stopping closes the open connections."""
        with self._calling():
            handle = _handle(name)
            (handle.enable if enabled else handle.disable)()
            return proxy_state(_last_reply.get().json())

    def add_toxic(
        self, proxy: str, name: str, kind: str, stream: str, attributes: Mapping[str, int]
    ) -> ToxicState:
        """Add a toxic that affects every connection (toxicity 1); returns what the server stored."""
        with self._calling():
            _handle(proxy).add_toxic(
                type=kind, name=_checked(name), stream=stream, toxicity=1.0, attributes=dict(attributes)
            )
            return toxic_state(_last_reply.get().json())

    def update_toxic(self, proxy: str, name: str, attributes: Mapping[str, int]) -> None:
        """Change the attributes of an existing toxic; open connections are affected too."""
        path = f"/proxies/{_checked(proxy)}/toxics/{_checked(name)}"
        self.send("POST", path, {"attributes": dict(attributes)})

    def remove_toxic(self, proxy: str, name: str) -> None:
        """Remove the toxic if it exists."""
        with suppress(ToxiproxyNotFound), self._calling():
            _handle(proxy).destroy_toxic(_checked(name))

    def send(self, method: str, path: str, body: object = None) -> _Reply:
        """Send one request; raises ``ToxiproxyError`` without a reply or for a status of 400 or more."""
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(method, path, body=data, redirect=False)
        except urllib3.exceptions.NewConnectionError as error:
            raise Unreachable(
                f"no Toxiproxy listens at {self.url}; start it, or set TOXIPROXY_URL"
            ) from error
        except urllib3.exceptions.TimeoutError as error:
            raise Unreachable(
                f"Toxiproxy at {self.url} did not answer {method} {path} in time; is it overloaded?"
            ) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(
                f"no Toxiproxy at {self.url} ({method} {path}: {error}); start it, or set TOXIPROXY_URL"
            ) from error
        reply = _Reply(answer.status, answer.data)
        _last_reply.set(reply)
        self._raise_for(reply, f"{method} {path}")
        return reply

    def _create(self, name: str, listen: str, upstream: str) -> ProxyState:
        with self._calling():
            Toxiproxy().create(upstream=upstream, name=name, listen=listen, enabled=True)
            return proxy_state(_last_reply.get().json())

    def _json(self, method: str, path: str) -> dict[str, Any]:
        try:
            answer = self.send(method, path).json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ToxiproxyServerError(
                f"the server at {self.url}{path} is not Toxiproxy; check TOXIPROXY_URL"
            )
        return answer

    def _raise_for(self, reply: _Reply, call: str) -> None:
        if reply.status_code < 300:
            return
        message = f"Toxiproxy at {self.url}, {call}: {_error_text(reply)} (HTTP {reply.status_code})"
        match reply.status_code:
            case 404:
                raise ToxiproxyNotFound(f"{message}; someone deleted it, or the server was restarted")
            case 409:
                raise Exists(f"{message}; remove it first or choose another name")
            case code if 400 <= code < 500:
                raise Rejected(f"{message}; correct the request")
            case _ if "address already in use" in message:
                raise ToxiproxyServerError(f"{message}; free that port or listen on another")
            case _:
                raise ToxiproxyServerError(f"{message}; see the server's log, and restart it if necessary")

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Let toxiproxy-python use this client's server within the block, and translate its errors."""
        token = _caller.set(self)
        try:
            yield
        except library.ProxyExists as error:
            raise Exists(f"Toxiproxy at {self.url}: the proxy exists; delete it first") from error
        except (KeyError, TypeError, ValueError) as error:
            raise ToxiproxyServerError(
                f"the server at {self.url} is not Toxiproxy; check TOXIPROXY_URL"
            ) from error
        finally:
            _caller.reset(token)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Rejected(
            f"{name!r} cannot name a proxy or toxic: it goes into a path; use letters, digits, '_', '-', '.'"
        )
    return name


def _handle(name: str) -> Proxy:
    return Proxy(name=_checked(name), upstream="", listen="", enabled=True)


def _error_text(reply: _Reply) -> str:
    try:
        return str(reply.json()["error"])
    except (ValueError, KeyError, TypeError):
        return reply.content.decode("utf-8", "replace").strip()[:200] or "no reason given"
