"""``python -P program.py MODULE ...``: run a module of the library or of the lab, like ``python -m``.

Modules of the same name in the working directory or ``PYTHONPATH`` (a user's ``agent``) do not shadow it.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main() -> None:
    library = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, library)  # for the next import only: the package is known then
    from wirefault.core.interrupts import collect_seldom, end_quickly

    sys.path.remove(library)
    collect_seldom()
    try:
        run_program(sys.argv[1:])
    finally:
        end_quickly()


def run_program(program: list[str]) -> None:
    """Runs the module as ``__main__``; ``program`` is its name and its arguments."""
    from wirefault.core.lab_folder import lab_root

    module = program[0]
    if module.partition(".")[0] != "wirefault":  # a user's subject may have the same name as the lab's
        sys.path.insert(0, str(lab_root().resolve()))
    sys.argv = list(program)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
