"""The client of MCP with its three reference servers, unchanged: by ``exec``, and under every preset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.findings.environments import InstalledAgent
from bench.findings.example_lab import ExampleLab, example_lab
from tests.frameworks.exec_runs import check_preset, installed
from tests.frameworks.mcp_servers import LINK, Everything, everything
from tests.frameworks.test_exec import exchanges, exec_run
from tests.shared_imports import shared_imports
from wirefault.faults.sets.presets import preset_names

PROMPT = 'Make the folder "notes", then look up "tea" and say "done"'
# Every preset applies: each has faults of the model or of tools, and a discovered MCP server is a tool link.
# By preset: a seed with an injected fault within one run, and its link.
STRUCK = {
    "bad-network": (1, "mcp_server_filesystem"),
    "broken-model": (4, "model"),
    # faults on the servers over pipes end the client before it calls the third one
    "heavy": (8, "mcp_server_filesystem"),
    "light": (2, LINK),
    "lost-replies": (1, "mcp_server_filesystem"),
    "lying-tools": (1, LINK),
    "moderate": (4, LINK),
    "rate-limits": (1, "mcp_server_filesystem"),
    "recovery-lab": (1, "model"),
}
SEEDS = {name: seed for name, (seed, _) in STRUCK.items()}
DEAF = json.dumps(
    {
        "faults": [
            {"fault": "lose_reply", "links": "tools", "only": {"tool": "echo"}},
            {"fault": "changed_tools", "with": {"tool": "get-sum"}},
        ]
    }
)


@pytest.fixture(scope="module")
def agent() -> InstalledAgent:
    return installed("mcp_client")


@pytest.fixture(scope="module")
def server(agent: InstalledAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    """The one of the three that the client does not start itself."""
    with everything(agent, tmp_path_factory.mktemp("everything")) as server:
        yield server


@pytest.fixture(scope="module")
def lab(
    agent: InstalledAgent, server: Everything, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExampleLab]:
    with shared_imports(), example_lab(agent, tmp_path_factory.mktemp("presets"), PROMPT) as lab:
        yield lab


@pytest.mark.parametrize("name", preset_names())
def test_preset_faults_match_upstream_records(lab: ExampleLab, server: Everything, name: str) -> None:
    server.forget()
    seen = check_preset(lab, name, SEEDS, **{LINK: server})
    there = [each for each in seen if each.link == LINK]
    assert sorted(each.tool for each in there if each.tool and each.forwarded) == sorted(server.calls)
    assert {each.dialect for each in there} <= {"mcp"}
    assert any(fault.injected for each in seen if each.link == STRUCK[name][1] for fault in each.faults)


def test_mcp_faults_on_server_found_by_exec(
    agent: InstalledAgent, server: Everything, tmp_path: Path
) -> None:
    server.forget()
    code, events = exec_run(agent, tmp_path, PROMPT, "--faults", DEAF)
    assert code == 0  # it fails, and says so
    assert (tmp_path / "notes").is_dir()  # requests that the file server received over standard input
    there = exchanges(events, LINK)
    injected_kinds = {(fault.kind, each.message) for each in there for fault in each.faults if fault.injected}
    assert injected_kinds == {("lose_reply", "tools/call"), ("changed_tools", "tools/list")}
    assert sorted((each.method, each.target) for each in there if each.forwarded) == sorted(server.requests)
    assert server.calls == ["echo"]
