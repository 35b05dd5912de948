"""The reference servers of MCP over stdio, led through the lab both ways, each with MCP faults."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Silence, in_folder
from tests.frameworks.exec_runs import installed
from tests.shared_imports import shared_imports
from tests.support import replace
from wirefault.core.identity import new_run_id
from wirefault.history.events import AttemptEnded, Exchange
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import PromptsRun, run_prompts
from wirefault.settings.configuration import load_configuration
from wirefault.subjects.opening import open_wired_subject
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

PROGRAM = Path(__file__).with_name("mcp_three_servers.py")
NAMES = ("filesystem", "memory", "everything")


def fault_entry(link: str, fault: str, tool: str | None = None, **limits: object) -> dict[str, object]:
    """Return a fault on the first call of that tool, or on the list of tools."""
    only = {"only": {"tool": tool}} if tool else {}
    return {
        "id": f"{link}: {fault}",
        "fault": fault,
        "links": link,
        "with": limits,
        "when": {"nth": 1, "of": "try"},
        **only,
    }


FAULTS = [
    fault_entry("filesystem", "tool_error", "create_directory"),
    fault_entry("filesystem", "garbage_line", "list_directory"),
    fault_entry("memory", "rpc_error", "create_entities"),
    fault_entry("memory", "duplicate_response", "read_graph"),
    fault_entry("everything", "changed_tools", kind="none"),
    fault_entry("everything", "late_response", "echo", ms=50),
]
SAW = {
    "filesystem": ["tool error", "good", "good"],
    "memory": ["error -32603", "good", "good"],
    "everything": ["good", "good"],
}


def wired(folder: Path) -> SpecFile:
    commands = {
        "filesystem": ["mcp-server-filesystem", str(folder)],
        "memory": ["mcp-server-memory"],
        "everything": ["mcp-server-everything", "stdio"],
    }
    links = {name: {"mcp": {"command": command}} for name, command in commands.items()}
    subject = {"command": ["python", str(PROGRAM), "{prompt}", str(folder)], "folder": str(folder)}
    return SpecFile("a test", {"links": links, "subject": subject})


def client_configuration(folder: Path, lab: Lab) -> Path:
    """The client's file, which names `wirefault mcp` in each server's place."""
    shim = str(Path(sys.executable).with_name("wirefault"))
    words = ["mcp", "--lab", str(lab.topology_path), "--link"]
    links = lab.topology.links
    servers = {name: {"command": shim, "args": [*words, name, "--", *links[name].command]} for name in NAMES}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stdio")


@pytest.fixture(scope="module")
def prompts_run(folder: Path) -> Iterator[PromptsRun]:
    """One run of both ways, a prompt each."""
    agent = installed("mcp_client")
    wiring = build_wiring(wired(folder), folder)
    calm = {"faults": json.dumps({"faults": FAULTS}), "toxic_prob": "0", "error_prob": "0", "seed": "1"}
    environ = {**os.environ, "PATH": agent.path}
    configuration = in_folder(load_configuration(environ, calm, wiring), folder)
    with shared_imports(), Lab(configuration, Choice("embedded")) as lab:
        prompts = folder / "prompts.json"
        ways = ["wired", str(client_configuration(folder, lab))]
        prompts.write_text(json.dumps([{"prompt": way} for way in ways]), encoding="utf-8")
        lab_configuration = replace(configuration, topology=lab.topology)
        with open_wired_subject(wiring, lab_configuration) as subject:
            yield run_prompts(new_run_id(), lab_configuration, subject, load_prompts(prompts), Silence())


@pytest.mark.parametrize("place", [0, 1], ids=["wired", "configured"])
def test_faults_on_each_server_reach_client(prompts_run: PromptsRun, place: int) -> None:
    episode = prompts_run.summary.episodes[place].episode
    events = [event for event in prompts_run.record.events if getattr(event, "episode", None) == episode]
    [ended] = [event for event in events if isinstance(event, AttemptEnded)]
    saw = json.loads(ended.response)
    assert {name: became for name, (_, *became) in saw.items()} == SAW
    assert [tools > 0 for tools, *_ in saw.values()] == [True, True, False]
    faults = [fault for event in events if isinstance(event, Exchange) for fault in event.faults]
    assert sorted(fault.id for fault in faults if fault.injected) == sorted(
        str(entry["id"]) for entry in FAULTS
    )
    made = [event for event in events if isinstance(event, Exchange) and event.tool == "create_directory"]
    assert [each.forwarded for each in made] == [False, True]


def test_file_server_state_matches(prompts_run: PromptsRun, folder: Path) -> None:
    assert {path.name for path in folder.iterdir() if path.is_dir()} >= {"wired", "mcp"}
