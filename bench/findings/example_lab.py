"""A lab that runs one example repeatedly, with its servers' records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.findings.environments import EXAMPLES, InstalledAgent
from bench.findings.upstreams import Model, Shop, scripted_model, shop_at
from wirefault.core.identity import new_run_id
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import PromptsRun, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.subjects.opening import open_wired_subject
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.topology import TOPOLOGY_VARIABLE
from wirefault.wiring.wiring import Wiring, load_wiring, with_links, with_subject

WIRING = EXAMPLES / "wirefault.yaml"


class Silence:
    def say(self, message: str) -> None: ...
    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None: ...
    def episode_judged(self, index: int, total: int, judgement: object) -> None: ...


@dataclass
class ExampleLab:
    """A running lab, wired for one example."""

    lab: Lab
    configuration: Configuration
    prompts: Path
    shop: Shop
    model: Model

    def run(self, settings: Mapping[str, Any]) -> PromptsRun:
        """Run the example once with these settings and no other faults."""
        wiring, base = self.configuration.wiring, self.configuration
        quiet = {"toxic_prob": 0, "error_prob": 0, "seed": 1}
        # by the topology the tap finds the lab's ingress
        environ = {**base.environ, TOPOLOGY_VARIABLE: str(self.lab.topology_path)}
        configuration = load_configuration(base.environ, {**quiet, **settings}, wiring)
        configuration = replace(configuration, environ=environ, topology=self.lab.topology)
        configuration = replace(configuration, logs=base.logs, state=base.state, effects=base.effects)
        self.shop.requests.clear()
        self.model.requests.clear()
        with open_wired_subject(wiring, configuration) as subject:
            return run_prompts(new_run_id(), configuration, subject, load_prompts(self.prompts), Silence())


@contextmanager
def example_lab(
    agent: InstalledAgent, folder: Path, prompt: str, more_links: Mapping[str, str] | None = None
) -> Iterator[ExampleLab]:
    """Start the lab and its servers in that folder. ``more_links``: more upstreams, by link."""
    prompts = folder / "prompts.json"
    prompts.write_text(json.dumps([{"id": "order", "prompt": prompt}]), encoding="utf-8")
    with shop_at(folder / "shop.db") as shop, scripted_model() as model:
        links = {"model": model.url, "shop": shop.url, **(more_links or {})}
        configuration = load_configuration(_environ(agent), {}, _wired(agent, links))
        state = folder / "state"
        configuration = replace(
            configuration, logs=folder / "logs", state=state / "state.db", effects=state / "effects.db"
        )
        with Lab(configuration, Choice("embedded")) as lab:
            yield ExampleLab(lab, configuration, prompts, shop, model)


def _wired(agent: InstalledAgent, links: Mapping[str, str]) -> Wiring:
    wiring = with_links(load_wiring(WIRING), [f"{name}={url}" for name, url in links.items()])
    return with_subject(wiring, [*agent.command, "{prompt}"])


def _environ(agent: InstalledAgent) -> dict[str, str]:
    # keep compiled modules, so that only the first run compiles its framework
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # a framework's telemetry takes longer than its run, without time for the faults
    silent = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    return {**own, **silent, "PATH": agent.path, "OPENAI_API_KEY": "none-needed"}
