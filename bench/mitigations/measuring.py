"""Measure cells: one lab and one server of the agent for each arm, and a run for each fault."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.findings.environments import CACHE, install_python
from bench.findings.example_lab import Silence
from bench.findings.upstreams import scripted_model, shop_at
from bench.mitigations.cells import BOUND_S, CALM, SEED, Family, Trial
from wirefault.core.identity import new_run_id
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.experiments.arms import ArmFacts, facts_of_one
from wirefault.experiments.estimates import Terms
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.tournament import Contestant, Table, table_of
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.subjects.opening import open_wired_subject
from wirefault.subjects.surroundings import link_variables
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import Wiring, build_wiring

CLIENTS = Path(__file__).with_name("clients.py")
DURABLE = Path(__file__).with_name("durable.py")
RESTATE = "@restatedev/restate-server@1.7.12"
PLAYBOOKS = Path(__file__).with_name("playbooks.yaml")
_START_S = 240  # LiteLLM compiles thousands of modules at its first start


def prepare(environment: str) -> Path:
    """Create the environment of the clients if it is missing; return its interpreter."""
    home = CACHE / f"mitigations-{environment}"
    if not (home / "ready").exists():
        home.mkdir(parents=True, exist_ok=True)
        install_python(home, [Path(__file__).with_name(f"{environment}.requirements.txt")])
        (home / "ready").touch()
    return home / "bin" / "python"


def prepare_restate() -> None:
    """Install Restate's server by npm if it is missing; its package carries the program."""
    home = CACHE / "mitigations-restate"
    if not (home / "node_modules").exists():
        home.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", RESTATE]
        subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)


@dataclass(frozen=True)
class ArmLab:
    """A lab that is up, with the agent's server behind it."""

    lab: Lab
    configuration: Configuration
    wiring: Wiring
    folder: Path

    def run(self, trial: Trial, episodes: int) -> ArmFacts:
        """Run the prompt so often under the fault. Raises ``RuntimeError`` if the lab failed."""
        base = self.configuration
        settings = {"toxic_prob": 0, "error_prob": 0, "seed": SEED, "attempt_time": BOUND_S, **trial.settings}
        configured = load_configuration(base.environ, settings, self.wiring)
        configured = replace(configured, environ=base.environ, topology=self.lab.topology)
        configured = replace(configured, logs=base.logs, state=base.state, effects=base.effects)
        prompts = self.folder / "prompts.json"
        prompts.write_text(_prompts(trial, episodes), encoding="utf-8")
        run_id = new_run_id()
        with open_wired_subject(self.wiring, configured) as subject:
            run = run_prompts(run_id, configured, subject, load_prompts(prompts), Silence())
        if run.failure:
            raise RuntimeError(f"{trial.name}: {run.failure}")
        return facts_of_one(facts_of(run_id, run.record.events))


def _prompts(trial: Trial, episodes: int) -> str:
    same = {"prompt": trial.prompt, "expect": trial.expected}
    entries = [{"id": f"order.r{n}", **same} for n in range(1, episodes + 1)]
    return json.dumps(entries)


@contextmanager
def arm_lab(arm: str, family: Family, python: Path, folder: Path) -> Iterator[ArmLab]:
    """Start the shop, the scripted model, a lab and the agent's server."""
    # for the servers of the agent and its tool, which start last
    with bind(Address(LOOPBACK, 0)) as first, bind(Address(LOOPBACK, 0)) as second:
        port, tools_port = bound_address(first).port, bound_address(second).port
    with shop_at(folder / "shop.db") as shop, scripted_model(PLAYBOOKS) as model:
        of_model = "ANTHROPIC_BASE_URL" if family.dialect == "anthropic" else "OPENAI_BASE_URL"
        base = "" if family.dialect == "anthropic" else "/v1"
        data: dict[str, Any] = {
            "links": {
                "model": {"upstream": f"{model.url}{base}", "dialect": family.dialect, "env": of_model},
                "shop": {"upstream": shop.url, "env": "SHOP_URL", "writes": ["POST /orders"]},
                **({"orders": _tools_link(tools_port)} if family.has_mcp else {}),
            },
            "subject": {"command": [str(python), str(DURABLE), arm, "{prompt}"]}
            if family.is_killed
            else {"http": f"http://{LOOPBACK}:{port}/", "answer": "answer"},
        }
        wiring = build_wiring(SpecFile("bench.mitigations", data), folder)
        configuration = load_configuration(dict(os.environ), {}, wiring)
        state = folder / "state"
        configuration = replace(
            configuration, logs=folder / "logs", state=state / "state.db", effects=state / "effects.db"
        )
        with Lab(configuration, Choice("embedded")) as lab, ExitStack() as server:
            if family.has_mcp:
                server.enter_context(_served("tools", tools_port, python, wiring, lab))
            if not family.is_killed:
                server.enter_context(_served(arm, port, python, wiring, lab))
            yield ArmLab(lab, configuration, wiring, folder)


def _tools_link(port: int) -> dict[str, Any]:
    return {"upstream": f"http://{LOOPBACK}:{port}", "dialect": "mcp", "env": "TOOLS_URL"}


@contextmanager
def _served(arm: str, port: int, python: Path, wiring: Wiring, lab: Lab) -> Iterator[None]:
    addresses = {k: v for link in wiring.links for k, v in link_variables(link, lab.topology).items()}
    environ = {**os.environ, "OPENAI_API_KEY": "none-needed", "OTEL_SDK_DISABLED": "true", **addresses}
    process = subprocess.Popen(
        [python, CLIENTS, arm, str(port)], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _wait_for(process, port, arm)
        yield
    finally:
        process.kill()
        process.communicate()


def _wait_for(process: subprocess.Popen[bytes], port: int, arm: str) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            assert process.stderr is not None
            raise RuntimeError(f"{arm} did not start: {process.stderr.read().decode()[-500:]}")
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"{arm} did not start within {_START_S} s")


def measure_arm(arm: str, family: Family, trials: Sequence[Trial], folder: Path) -> dict[str, ArmFacts]:
    """Return the facts of the arm without faults and under each of these.

    Raises ``RuntimeError`` if an episode without faults fails: the others would show nothing about faults.
    """
    folder.mkdir(parents=True)
    facts: dict[str, ArmFacts] = {}
    with arm_lab(arm, family, prepare(family.environment), folder) as running:
        for trial in (replace(CALM, episodes=min(CALM.episodes, max(t.episodes for t in trials))), *trials):
            facts[trial.name] = running.run(trial, trial.episodes)
            outcomes = [episode.judged.outcome for episode in facts[trial.name].episodes]
            print(f"{arm}, {trial.name}: {outcomes}", file=sys.stderr, flush=True)
            if trial.name == CALM.name and set(outcomes) != {"success"}:
                raise RuntimeError(f"it must succeed without faults: {outcomes}")
    return facts


def tables_of(family: Family, facts: Mapping[str, Mapping[str, ArmFacts]]) -> dict[str, Table]:
    """Compare the arms that were measured, under each fault."""
    tables = {}
    for trial in family.trials:
        arms = [
            Contestant(arm, facts[arm][trial.name], facts[arm][trial.calm])
            for arm in family.arms
            if trial.name in facts.get(arm, {})
        ]
        if len(arms) > 1:
            tables[trial.name] = table_of(trial.name, arms, Terms())
    return tables
