"""Calls a user's function in a process of its own: ``python -m`` with ``MODULE:CALLABLE`` as its argument.

What it returns is printed as JSON, and nothing else: its own prints go to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys


def main(target: str) -> None:
    """Raises whatever the function raises, which ends the process with a traceback on standard error."""
    module, _, name = target.partition(":")
    sys.path.insert(0, "")
    with contextlib.redirect_stdout(sys.stderr):
        state = getattr(importlib.import_module(module), name)()
    json.dump(state, sys.stdout, default=str)


if __name__ == "__main__":
    main(sys.argv[1])
