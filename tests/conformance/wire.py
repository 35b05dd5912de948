"""What the tests of one connection share.

Durations are only held against lower bounds: a toxic must not be early; how late is the machine's affair.
"""

import time

import pytest

STREAMS = ["upstream", "downstream"]
both_streams = pytest.mark.parametrize("stream", STREAMS)
LONG_MS = 60_000


def elapsed_ms(start):
    return (time.monotonic() - start) * 1000


def still(value):
    """The value once it has not changed for a while."""
    seen, since = value(), time.monotonic()
    while seen == 0 or time.monotonic() - since < 0.2:
        time.sleep(0.005)
        if value() != seen:
            seen, since = value(), time.monotonic()
    return seen
