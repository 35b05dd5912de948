"""The agents' servers, with records of their requests: the shop and the model."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from io import BytesIO
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server

from bench.asgi_server import serve
from bench.findings.environments import EXAMPLES, ROOT
from wirefault.core.sockets import LOOPBACK
from wirefault.model_server.decide import Persona, decide
from wirefault.model_server.playbooks import SHIPPED, load_playbooks
from wirefault.model_server.server import create_app

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass
class RecordedServer:
    """A server. ``requests`` has the method and path of each complete request, in order."""

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Shop(RecordedServer):
    """The examples' shop. Its database is the record of the real orders."""

    database: Path = Path()

    def orders(self) -> int:
        """Return the number of orders."""
        with closing(sqlite3.connect(self.database)) as opened:
            [[orders]] = opened.execute("SELECT COUNT(*) FROM orders")
        return int(orders)


@dataclass
class Model(RecordedServer):
    """The scripted model, whose ``persona`` may be changed while it serves."""

    persona: Persona = Persona.DILIGENT


@contextmanager
def shop_at(database: Path, port: int = 0) -> Iterator[Shop]:
    """Serve the shop on loopback, by default on any free port, with its orders in ``database``."""
    spec = spec_from_file_location("shop", ROOT / "examples" / "shop" / "shop.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    shop, app = Shop("", database=database), module.create_app(str(database))
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # trials make clients close early
    server = make_server(LOOPBACK, port, _recording(app, shop), threaded=True)
    shop.url = f"http://{LOOPBACK}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shop
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _recording(app: WsgiApp, record: RecordedServer) -> WsgiApp:
    def recorded(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size)
        if len(body) == size:
            record.requests.append((environ["REQUEST_METHOD"], environ["RAW_URI"]))
        return app({**environ, "wsgi.input": BytesIO(body)}, start)

    return recorded


@contextmanager
def scripted_model(playbooks: Path = EXAMPLES / "playbooks.yaml") -> Iterator[Model]:
    """Serve the scripted model on loopback, with these playbooks; by default the examples'."""
    reply = partial(decide, load_playbooks(playbooks, SHIPPED))
    model = Model("")
    app = create_app(lambda messages, tools, _, *rest: reply(messages, tools, model.persona, *rest))

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        model.requests.append((scope["method"], scope["raw_path"].decode()))
        await app(scope, receive, send)

    with serve(recorded) as model.url:
        yield model
