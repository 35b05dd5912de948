"""A fork server for all labs that this process starts, and one for all runs: each would import the same anew.

Two seconds of a processor for each flight otherwise, most of it LangChain. The programs are the same, and so
is what forks them; only that a lab's own server of ``wirefault/lab/forking.py`` imports for that lab alone.
Labs that a process starts have servers of their own: those of ``tests/lab/test_ends.py``, for example.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from typing import IO
from unittest.mock import patch

from wirefault.lab import launcher
from wirefault.lab import own_lab as demo
from wirefault.lab.forking import ForkServer, forking
from wirefault.lab.process import Child, Fork, ProcessLog, program_of
from wirefault.lab.run_document import RUN_PROCESS

_PYTHONPATH = os.environ.get("PYTHONPATH")
# what else is forked is smaller without LangChain: a copied page of memory costs some microseconds
_RUNS = ("wirefault", RUN_PROCESS, "tests.launched")
_IMPORTS = (*demo._RUN_IMPORTS, *demo._AGENT_IMPORTS)


@contextmanager
def shared_imports() -> Iterator[None]:
    """Labs that are started in this process meanwhile have their programs and runs from the one server."""
    if sys.platform == "linux":
        for imports in ((), _IMPORTS):  # not in a lane's thread: others work in the folder that it leaves
            _server(imports)
    with (
        patch.object(launcher, "forking", _forking),
        patch.object(demo, "forking", _forking),
        patch.object(demo, "cannot_fork", fork),  # of a lab with a single run
    ):
        yield


@contextmanager
def _forking(environ: Mapping[str, str], log: ProcessLog, imports: Sequence[str] = ()) -> Iterator[Fork]:
    if _imports_alike(environ):
        yield fork
        return
    with forking(environ, log, imports) as own:
        yield own


def fork(
    command: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int], output: IO[bytes] | None
) -> Child | None:
    """A ``Fork``, by one of the servers; None where the program would not import the same."""
    if sys.platform != "linux" or not _imports_alike(environ):
        return None
    sys.audit("subprocess.Popen", command[0])  # whoever counts the processes of a test counts this one
    of_runs = program_of(command)[0] in _RUNS
    return _server(_IMPORTS if of_runs else ()).fork(command, environ, descriptors, output)


def _imports_alike(environ: Mapping[str, str]) -> bool:
    return environ.get("PYTHONPATH") == _PYTHONPATH


@cache
def _server(imports: Sequence[str]) -> ForkServer:
    with chdir("/"):  # what is imported there knows no test's folder
        server = ForkServer(os.environ, None, imports)
    atexit.register(server.close)
    return server
