"""Call a user's function in a separate process: ``python -m wirefault.runner.python_hook MODULE:CALLABLE``.

The result is printed as JSON; the function's own output goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys


def main(target: str) -> None:
    """Errors of the function end the process with a traceback."""
    module, _, name = target.partition(":")
    sys.path.insert(0, "")
    with contextlib.redirect_stdout(sys.stderr):
        state = getattr(importlib.import_module(module), name)()
    json.dump(state, sys.stdout, default=str)


if __name__ == "__main__":
    main(sys.argv[1])
