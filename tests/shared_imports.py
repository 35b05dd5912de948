"""One fork server for all labs that this process starts, and one for all runs.

Without them each run costs two seconds of CPU for imports, mostly of LangChain. The programs and the server
are the product's; only the sharing is new: a server of ``wirefault/lab/forking.py`` serves one lab. A lab
that another process starts, as in ``tests/lab/test_ends.py``, has its own server.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import wirefault
from wirefault.lab import launcher
from wirefault.lab import own_lab as demo
from wirefault.lab.forking import ForkServer, fork_server
from wirefault.lab.process import Child, ProcessLog, program_of
from wirefault.lab.run_document import RUN_PROCESS

_PYTHONPATH = os.environ.get("PYTHONPATH")
# the other programs are forked without LangChain: copying a page of memory costs microseconds
_RUNS = (wirefault.__name__, RUN_PROCESS, f"{__package__}.cli_process")
IMPORTS = (RUN_PROCESS, *demo._OF_MANY_RUNS, *demo._AGENT_IMPORTS, *demo._TAP_IMPORTS)


@contextmanager
def shared_imports() -> Iterator[None]:
    """Labs started inside the block fork their programs and runs from the shared servers."""
    if sys.platform == "linux":
        for imports in ((), IMPORTS):  # here and not in a lane's thread, because it changes the folder
            _server(imports)
    with patch.object(launcher, "fork_server", _fork_server):
        yield


class _Shared:
    """The servers of this process, as one lab's."""

    def fork(self, *arguments: Any) -> Child | None:
        return fork(*arguments)

    def prepare(self, imports: Sequence[str]) -> None:
        """They have them."""

    def close(self) -> None:
        """Other labs use them."""


def _fork_server(environ: Mapping[str, str], log: ProcessLog) -> ForkServer | _Shared | None:
    return _Shared() if _has_same_imports(environ) else fork_server(environ, log)


def fork(
    command: Sequence[str],
    environ: Mapping[str, str],
    descriptors: Sequence[int],
    streams: Mapping[int, int],
) -> Child | None:
    """A ``Fork`` by a shared server; None if the program would import other modules."""
    if sys.platform != "linux" or not _has_same_imports(environ):
        return None
    sys.audit("subprocess.Popen", command[0])  # so that conftest.py counts this process
    is_run = program_of(command)[0] in _RUNS
    forked = _server(IMPORTS if is_run else ()).fork(command, environ, descriptors, streams)
    assert forked, "the shared server forks nothing: each program would import everything again"
    return forked


def _has_same_imports(environ: Mapping[str, str]) -> bool:
    return environ.get("PYTHONPATH") == _PYTHONPATH


@cache
def _server(imports: Sequence[str]) -> ForkServer:
    with chdir("/"):  # no imported module may depend on a test's folder
        server = ForkServer(os.environ, None)
        server.prepare(imports)
    atexit.register(server.close)
    return server
