"""Which framework runs under which presets: all by ``make frameworks``, else some.

Starting the frameworks takes most of a run, so `make test` runs an eighth of them: every agent under one
preset, every preset under one or two agents. The effect of a preset on the wire is the same for each agent;
all presets run with the smaller clients of `tests/examples`.
"""

from __future__ import annotations

import pytest

from bench.findings.environments import EXAMPLES
from tests.support import required
from wirefault.faults.sets.presets import preset_names

SHARE = 8
HERE = "tests/frameworks/"
AGENTS = sorted(path.parent.name for path in EXAMPLES.glob("*/agent.*"))


def assigned(agent: str, preset: str) -> bool:
    """Neighbours in one list get different eighths of the other."""
    return (AGENTS.index(agent) + preset_names().index(preset)) % SHARE == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if required("every-preset"):
        return
    omitted = {item for item in items if item.nodeid.startswith(HERE) and not _is_selected(item)}
    items[:] = [item for item in items if item not in omitted]
    config.hook.pytest_deselected(items=list(omitted))


def _is_selected(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return True
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "lab" not in item.fixturenames or "name" not in params:
        return True
    return assigned(params.get("lab", "mcp_client"), params["name"])
