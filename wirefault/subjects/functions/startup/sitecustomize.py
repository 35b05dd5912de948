"""Runs at the start of each Python process of a subject, by its ``PYTHONPATH``.

It marks the tools of frameworks, and puts the launchers of MCP servers first on ``PATH`` again, which pyenv's
shims, ``uv run`` and the like change.

The environment's own ``sitecustomize``, if it has one, runs first.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = __file__.rpartition(os.sep)[0]  # absolute, as PYTHONPATH has it; pathlib is slow to import


def _run_next() -> None:
    """Run the next ``sitecustomize`` on the path, in the place of this one."""
    others = [folder for folder in sys.path if folder != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _load() -> None:
    """Import the package of this folder, which may be on no path, under another name."""
    folder = _HERE.rpartition(os.sep)[0]
    spec = importlib.util.spec_from_file_location(
        "_wirefault_functions", f"{folder}{os.sep}__init__.py", submodule_search_locations=[folder]
    )
    if spec is not None and spec.loader is not None:
        package = importlib.util.module_from_spec(spec)
        sys.modules["_wirefault_functions"] = package
        spec.loader.exec_module(package)
        importlib.import_module("_wirefault_functions.frameworks").watch()


def _put_first(launchers: str) -> None:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if folders[0] != launchers and launchers in folders:  # missing from the PATH of a server behind the lab
        others = [folder for folder in folders if folder != launchers]
        os.environ["PATH"] = os.pathsep.join([launchers, *others])


_run_next()
_put_first(os.environ.get("WIREFAULT_LAUNCHERS", ""))
if os.environ.get("WIREFAULT_FUNCTIONS") and sys.version_info >= (3, 9):
    _load()
