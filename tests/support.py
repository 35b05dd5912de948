"""What tests of several folders share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from inspect import getsource
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, TypeVar

import pytest

# How long a test waits for what must come. It is spent only where nothing comes, and so the test fails: no
# machine is so busy that it should be longer.
PATIENCE_S = 60.0
RUN_PATIENCE_S = 600.0  # for a command that flies, builds or tests something
A, B = TypeVar("A"), TypeVar("B")
ROOT = Path(__file__).resolve().parents[1]

_ALL = "WIREFAULT_REQUIRE" in os.environ  # whoever requires parts, as CI does, thins nothing


def required(part: str) -> bool:
    """Whether this part must be tested: CI names them in WIREFAULT_REQUIRE, and none may be skipped then."""
    return part in os.environ.get("WIREFAULT_REQUIRE", "").split(",")


def only_where_required(part: str) -> pytest.MarkDecorator:
    """Skips what costs much elsewhere, and what other tests show in small."""
    return pytest.mark.skipif(not required(part), reason=f"where WIREFAULT_REQUIRE names {part}, as in CI")


def examples(most: int) -> int:
    """How many inputs a test makes up: all of these in CI, a third of them elsewhere."""
    return most if _ALL else max(most // 3, 1)


def share(number: int) -> bool:
    """Whether the case of this number is tried: every one in CI, every third elsewhere."""
    return _ALL or number % 3 == 0


def paired(some: Sequence[A], others: Sequence[B]) -> list[tuple[A, B]]:
    """All pairs in CI, elsewhere a third of them: each of the one kind with a third of the other."""
    return [
        (one, other) for at, one in enumerate(some) for which, other in enumerate(others) if share(at + which)
    ]


def copy_sources(folder: Path, to: Path) -> None:
    """With what is compiled of them; not with what another test worker is about to write."""
    copytree(folder, to, ignore=ignore_patterns("*.pyc.*"))


def until(
    condition: Callable[[], Any], what: str = "", *, patience: float = PATIENCE_S, interval: float = 0.002
) -> Any:
    """Polls every ``interval`` seconds until the condition is true, and returns its value.

    After ``patience`` seconds the test fails, and its message names what was waited for; the condition's
    own line if ``what`` is not given.
    """
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {patience} s in vain for {what or getsource(condition).strip()}")
        time.sleep(interval)
    return value
