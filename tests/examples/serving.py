"""Servers of the examples in this process, with their own records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from werkzeug.serving import make_server

from bench.asgi_server import serve
from tests.model_server.conversations import DECIDE
from tests.support import ROOT
from wirefault.model_server.server import create_app

EXAMPLES = ROOT / "examples"
WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass
class Recorded:
    """``requests``: method and path of each whole request, in the order in which they came."""

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def served(app: WsgiApp) -> Iterator[Recorded]:
    """The app on loopback; a request is in the record once all of it is there, before the app gets it."""
    record = Recorded("")

    def recording(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size)
        if len(body) == size:
            record.requests.append((environ["REQUEST_METHOD"], environ["RAW_URI"]))
        return app({**environ, "wsgi.input": BytesIO(body)}, start)

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # the test is about a client that leaves
    server = make_server("127.0.0.1", 0, recording, threaded=True)
    record.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield record
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def module_at(path: Path) -> ModuleType:
    """A module of an example, which is not a package."""
    spec = spec_from_file_location(f"example_{path.stem}", path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def shop(database: Path) -> Iterator[Recorded]:
    """The shop of the examples."""
    with served(module_at(EXAMPLES / "shop" / "shop.py").create_app(str(database))) as record:
        yield record


@contextmanager
def scripted_model() -> Iterator[Recorded]:
    """The scripted model as a server outside the lab."""
    record, model = Recorded(""), create_app(DECIDE)

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        record.requests.append((scope["method"], scope["raw_path"].decode()))
        whole = [{"type": "http.request", "body": body}]
        await model(scope, lambda: _next(whole, receive), send)

    with serve(recording) as url:
        record.url = url
        yield record


async def _next(messages: list[dict[str, Any]], receive: Any) -> Any:
    return messages.pop(0) if messages else await receive()
