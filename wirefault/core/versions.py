"""What a run was flown with, so that two runs can be told apart by it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def versions_in_use() -> dict[str, str]:
    """The versions of Wirefault and of Python; a checkout that was not installed has none of its own."""
    try:
        wirefault = version("wirefault")
    except PackageNotFoundError:
        wirefault = "not installed"
    return {"wirefault": wirefault, "python": platform.python_version()}
