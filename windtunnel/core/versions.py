"""What a run was flown with, so that two runs can be told apart by it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def versions_in_use() -> dict[str, str]:
    """The versions of Windtunnel and of Python; a checkout that was not installed has none of its own."""
    try:
        windtunnel = version("windtunnel")
    except PackageNotFoundError:
        windtunnel = "not installed"
    return {"windtunnel": windtunnel, "python": platform.python_version()}
