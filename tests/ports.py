"""Ports that stay free until their user comes."""

from __future__ import annotations

import random
import socket

NO_CLIENTS_PORTS = (15000, 32000)
ATTEMPTS_AT_A_PORT = 50


def free_port() -> int:
    """A port that nothing has, from those that no client is given for its own end.

    A port that the system hands to clients may be gone by the time its user takes it, or takes it again.
    """
    for _ in range(ATTEMPTS_AT_A_PORT):
        port = random.SystemRandom().randrange(*NO_CLIENTS_PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise RuntimeError(f"no free port among {ATTEMPTS_AT_A_PORT} of {NO_CLIENTS_PORTS}")
