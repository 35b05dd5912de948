"""What tests of several folders share."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def required(part: str) -> bool:
    """Whether this part must be tested: CI names them in WINDTUNNEL_REQUIRE, and none may be skipped then."""
    return part in os.environ.get("WINDTUNNEL_REQUIRE", "").split(",")
