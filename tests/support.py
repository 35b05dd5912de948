"""What tests of several folders share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def required(part: str) -> bool:
    """Whether this part must be tested: CI names them in WINDTUNNEL_REQUIRE, and none may be skipped then."""
    return part in os.environ.get("WINDTUNNEL_REQUIRE", "").split(",")


def until(condition: Callable[[], Any], what: str = "the condition", seconds: float = 5) -> Any:
    """Polls until the condition is true and returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true in {seconds} s"
        time.sleep(0.002)
    return value
