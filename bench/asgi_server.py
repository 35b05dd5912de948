"""Serve an ASGI app in a thread, like the model server's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address


@contextmanager
def serve(app: Any, host: str = LOOPBACK) -> Iterator[str]:
    """Serve the app on a free port of the host; yield its address."""
    listener = bind(Address(host, 0))
    config = uvicorn.Config(app, lifespan="off", ws="none", log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield bound_address(listener).url
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
