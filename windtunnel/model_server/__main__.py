"""``python -m windtunnel.model_server``: serves the scripted model on the model link's address."""

from __future__ import annotations

import os
import socket
import sys

from waitress.server import create_server

from windtunnel.core.lifeline import watch
from windtunnel.core.sockets import listen
from windtunnel.links.topology import topology_from
from windtunnel.model_server.server import create_app


def main() -> int:
    """Serves until it is told to stop or the launcher ends; 1 if the port is taken."""
    address = topology_from(os.environ).services["model"]
    try:
        listener = listen("model", address)
    except OSError as error:
        sys.stderr.write(
            f"the scripted model cannot listen on {address}: {error.strerror}; free the port or set another\n"
        )
        return 1
    # accepted connections inherit it: a reply must not wait for a delayed acknowledgement
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # a reply, stream or not, is there at once: it is written in one go
    server = create_server(create_app(), sockets=[listener], threads=8, ident=None, send_bytes=1 << 16)
    watch(os.environ, lambda: os._exit(0))
    try:
        server.run()
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
