"""Examples under presets: faults arrive, and the record matches the upstreams' own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.lab import Silence, in_folder
from tests.examples.environments import Installed, installed
from tests.examples.serving import Recorded, scripted_model, shop
from tests.shared_imports import shared_imports
from tests.support import paired, replace
from wirefault.core.identity import new_run_id
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.faults.sets.presets import preset, preset_names
from wirefault.history.events import Exchange
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import PromptsRun, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.subjects.opening import open_wired_subject
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.wiring import Wiring, load_wiring, with_links

pytestmark = pytest.mark.slow

NAMES = ("openai_chat", "openai_responses", "anthropic", "google_genai", "requests_loop", "vercel_ai", "go")
BASES = {"openai_chat": "/v1", "openai_responses": "/v1"}  # by dialect: the path of the client's base URL
# by preset: a seed and prompt whose order meets a fault while some requests arrive, within seconds
SEEDS = {
    "bad-network": 2,
    "broken-model": 4,
    "heavy": 3,
    "light": 1,
    "lost-replies": 1,
    "lying-tools": 1,
    "moderate": 4,
    "rate-limits": 9,
    "recovery-lab": 1,
}
TIMES = {"recovery-lab": 1}  # three quarters of its messages fail already
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "none-needed")


def stronger(faults: FaultSet, times: float) -> str:
    """The same faults with multiplied probability, so that a few prompts meet some."""
    entries = json.loads(faults.dump())
    for entry in (*entries.get("faults", ()), *entries.get("toxics", ())):
        when = entry.setdefault("when", {})
        when["probability"] = min(1.0, when.get("probability", 1.0) * times)
    return json.dumps(entries)


@dataclass
class ExampleLab:
    """A lab with an example's wiring; its upstreams keep records."""

    lab: Lab
    configuration: Configuration
    upstreams: dict[str, Recorded]

    def run(self, name: str) -> PromptsRun:
        """The example's order under that preset."""
        wiring, folder = self.configuration.wiring, self.configuration.logs.parent
        words = {
            "faults": stronger(preset(name, wiring.links), TIMES.get(name, 3)),
            "seed": str(SEEDS[name]),
            "attempt_time": "60",
            "toxic_prob": "0",
            "error_prob": "0",
        }
        lab_configuration = in_folder(load_configuration(self.configuration.environ, words, wiring), folder)
        lab_configuration = replace(lab_configuration, topology=self.lab.topology)
        assert wiring.prompts
        with open_wired_subject(wiring, lab_configuration) as subject:
            return run_prompts(
                new_run_id(), lab_configuration, subject, load_prompts(wiring.prompts, ["order"]), Silence()
            )


def wired(example: Installed, upstreams: dict[str, Recorded]) -> Wiring:
    wiring = load_wiring(example.wiring)
    model = wiring.links["model"]
    model_url = upstreams["model"].url + BASES.get(model.dialect, "")
    return with_links(wiring, [f"model={model_url}", f"shop={upstreams['shop'].url}"])


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleLab]:
    example = installed(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    with shop(folder / "shop.db") as goods, scripted_model() as model:
        upstreams = {"shop": goods, "model": model}
        environ = {**os.environ, **KEYS, **example.environ}
        configuration = load_configuration(environ, {}, wired(example, upstreams))
        configuration = in_folder(configuration, folder)
        with shared_imports(), Lab(configuration, Choice("embedded")) as lab:
            yield ExampleLab(lab, configuration, upstreams)


@pytest.mark.parametrize(("lab", "name"), paired(NAMES, preset_names()), indirect=["lab"])
def test_preset_faults_match_upstream_records(lab: ExampleLab, name: str) -> None:
    for upstream in lab.upstreams.values():
        upstream.requests.clear()
    prompts_run = lab.run(name)
    assert not prompts_run.failure
    faults = [fault for episode in prompts_run.summary.as_json()["episodes"] for fault in episode["faults"]]
    assert any(fault["delivered"] and fault["entry"] for fault in faults), faults
    exchanges = [event for event in prompts_run.record.events if isinstance(event, Exchange)]
    for link, upstream in lab.upstreams.items():
        forwarded = [(each.method, each.target) for each in exchanges if each.link == link and each.forwarded]
        assert forwarded == upstream.requests
    assert any(upstream.requests for upstream in lab.upstreams.values())
