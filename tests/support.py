"""Helpers for the tests of several folders."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import random
import socket
import tarfile
import time
from collections.abc import Callable, Sequence
from inspect import getsource
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, TypeVar

import pytest
from msgspec import Struct, structs

# How long a test waits for an expected event; only a failing test waits that long.
PATIENCE_S = 60.0
RUN_PATIENCE_S = 600.0  # for a command that runs, builds or tests something
# The system does not give clients ports of this range, so a port stays free until its server starts.
SERVER_PORTS = (15000, 32000)
PORT_ATTEMPTS = 50
A, B = TypeVar("A"), TypeVar("B")
THIRD = "WIREFAULT_TESTS_THIRD"
ROOT = Path(__file__).resolve().parents[1]

# .ci/run sets the first for a tag; the second writes tables of what all clients see
_ALL = bool({"WIREFAULT_EVERY_CASE", "FAULTS_SEEN"} & os.environ.keys())


def required(part: str) -> bool:
    """Whether this part must be tested: WIREFAULT_REQUIRE, set in CI, lists parts that may not be skipped."""
    return part in os.environ.get("WIREFAULT_REQUIRE", "").split(",")


def only_where_required(part: str) -> pytest.MarkDecorator:
    """Skip an expensive test that smaller tests cover, except in CI."""
    return pytest.mark.skipif(not required(part), reason=f"runs if WIREFAULT_REQUIRE names {part}, as in CI")


def examples(maximum: int) -> int:
    """How many inputs a property test generates: the maximum for a tag, a third of it elsewhere."""
    return maximum if _ALL else max(maximum // 3, 1)


def share(number: int) -> bool:
    """Whether the case with this number runs: every case for a tag, every third elsewhere.

    Each commit has another third, so that three runs have all cases: see tests/conftest.py.
    """
    return _ALL or number % 3 == int(os.environ.get(THIRD, "0"))


def paired(some: Sequence[A], others: Sequence[B]) -> list[tuple[A, B]]:
    """All pairs for a tag, a third of them elsewhere: each item of ``some`` with a third of ``others``."""
    return [
        (one, other) for at, one in enumerate(some) for which, other in enumerate(others) if share(at + which)
    ]


def replace(value: A, **changes: Any) -> A:
    """Return a copy of an event, or of another dataclass, with these fields changed."""
    return (structs if isinstance(value, Struct) else dataclasses).replace(value, **changes)  # type: ignore


def copy_sources(folder: Path, to: Path) -> None:
    """Copy sources and compiled files, without files that another test worker is still writing."""
    copytree(folder, to, ignore=ignore_patterns("*.pyc.*"))


def until(
    condition: Callable[[], Any], what: str = "", *, patience: float = PATIENCE_S, interval: float = 0.002
) -> Any:
    """Poll every ``interval`` seconds until the condition is true, and return its value.

    After ``patience`` seconds the test fails; its message has ``what``, else the source of the condition.
    """
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {patience} s in vain for {what or getsource(condition).strip()}")
        time.sleep(interval)
    return value


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive; Python has filters only since 3.11.4."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def made_once(name: str, make: Callable[[Path], object], factory: pytest.TempPathFactory) -> Path:
    """The folder that ``make`` fills, once for all workers of a session; the others wait for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made := folder.with_suffix(".made")).exists():
            make(folder)
            made.touch()
    return folder


def latest_run(logs: Path) -> str:
    """The id of the newest run, which begins with its time; live traffic does not count."""
    names = (path.parent.name for path in (logs / "runs").glob("*/*.jsonl"))
    return max(name for name in names if not name.startswith("live-"))


def free_port() -> int:
    """A free port that the system gives no client, so that it stays free until its server starts."""
    for _ in range(PORT_ATTEMPTS):
        port = random.SystemRandom().randrange(*SERVER_PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise RuntimeError(f"no free port among {PORT_ATTEMPTS} of {SERVER_PORTS}")
