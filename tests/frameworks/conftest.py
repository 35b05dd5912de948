"""Which framework is flown under which presets: under all by ``make frameworks``, else each under some.

Starting the frameworks takes most of a flight, so `make test` flies a third of them: every framework under
two or three presets, every preset under four frameworks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.findings.environments import EXAMPLES
from tests.support import required
from windtunnel.faults.sets.presets import preset_names

SHARE = 3
AGENTS = sorted(path.parent.name for path in EXAMPLES.glob("*/agent.*") if path.parent.name != "mcp_client")


def assigned(agent: str, preset: str) -> bool:
    """Neighbours in one list meet different thirds of the other."""
    return (AGENTS.index(agent) + preset_names().index(preset)) % SHARE == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if required("every-preset"):
        return
    left_out = [item for item in items if not _flies(item)]
    items[:] = [item for item in items if _flies(item)]
    config.hook.pytest_deselected(items=left_out)


def _flies(item: pytest.Item) -> bool:
    if item.path.parent != Path(__file__).parent or not isinstance(item, pytest.Function):
        return True
    flight = item.callspec.params if hasattr(item, "callspec") else {}
    return not {"lab", "name"} <= flight.keys() or assigned(flight["lab"], flight["name"])
