"""A lab of one example's own, in which it is flown again and again, and what its servers wrote down."""

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
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import PromptsRun, new_run_id, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.subjects.opening import open_wired_subject
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.topology import TOPOLOGY_VARIABLE
from wirefault.wiring.wiring import Wiring, load_wiring, with_links, with_subject

WIRING = EXAMPLES / "wirefault.yaml"


class _Silence:
    def say(self, message: str) -> None: ...
    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None: ...
    def episode_judged(self, index: int, total: int, judgement: object) -> None: ...


@dataclass
class ExampleLab:
    """A lab that is up, wired for one example."""

    lab: Lab
    configuration: Configuration
    prompts: Path
    shop: Shop
    model: Model

    def run(self, settings: Mapping[str, Any]) -> PromptsRun:
        """One flight with these settings, without any fault but theirs."""
        wiring, base = self.configuration.wiring, self.configuration
        quiet = {"toxic_prob": 0, "error_prob": 0, "seed": 1}
        # by its topology the tap finds the lab's ingress
        environ = {**base.environ, TOPOLOGY_VARIABLE: str(self.lab.topology_path)}
        asked = load_configuration(base.environ, {**quiet, **settings}, wiring)
        asked = replace(asked, environ=environ, topology=self.lab.topology)
        asked = replace(asked, logs=base.logs, state=base.state, effects=base.effects)
        self.shop.requests.clear()
        self.model.requests.clear()
        with open_wired_subject(wiring, asked) as subject:
            return run_prompts(new_run_id(), asked, subject, load_prompts(self.prompts), _Silence())


@contextmanager
def example_lab(
    agent: InstalledAgent, folder: Path, prompt: str, more_links: Mapping[str, str] | None = None
) -> Iterator[ExampleLab]:
    """The lab, its servers and its records in that folder; ``more_links``: other upstreams, by link."""
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
    # a compiled module is kept, else every flight compiles its framework anew
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # the report of a framework on its use takes longer than its flight, and leaves no time for the faults
    silent = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    return {**own, **silent, "PATH": agent.path, "OPENAI_API_KEY": "none-needed"}
