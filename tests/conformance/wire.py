"""Helpers for tests of one connection.

Durations are compared with lower bounds only: a toxic must not be early; lateness depends on the machine.
"""

import time
from pathlib import Path

import pytest

STREAMS = ["upstream", "downstream"]
both_streams = pytest.mark.parametrize("stream", STREAMS)
LONG_MS = 3_600_000  # longer than a test waits for anything


def elapsed_ms(start):
    return (time.monotonic() - start) * 1000


def still(value):
    """Wait until the value is stable and return it."""
    seen, since = value(), time.monotonic()
    while seen == 0 or time.monotonic() - since < 0.2:
        time.sleep(0.005)
        if value() != seen:
            seen, since = value(), time.monotonic()
    return seen


def unread(connection):
    """The number of bytes in the peer's kernel that its program has not read."""
    ours, theirs = (f":{address[1]:04X}" for address in (connection.getsockname(), connection.getpeername()))
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if local.endswith(theirs) and remote.endswith(ours):
            return int(queues.partition(":")[2], 16)
    raise LookupError(f"no connection between the ports {ours} and {theirs}")
