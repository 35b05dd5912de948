"""The line that repeats a run, read back as a shell and the lab would read it."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.judging.oracle.histories import ended, episode, run_finished, run_started
from tests.support import replace
from wirefault.core.lab_folder import sample_prompts
from wirefault.faults.sets.presets import find_set, preset, preset_names
from wirefault.judging.summary import summarise
from wirefault.report.next_command import with_folder
from wirefault.report.reproduce import as_user_named, command, prompts_changed, summary_command
from wirefault.runner.run import decide_backend
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Links
from wirefault.wiring.prompts import PromptsSource, load_prompts

FAULTS = '{"description": "it\'s", "faults": [{"fault": "unavailable", "links": "tools"}]}'
TWO_OF_A_KIND = {
    "faults": [
        {"fault": "delay", "links": "tools"},
        {"fault": "delay", "when": {"nth": 2}, "with": {"ms": 9}},
    ],
    "toxics": [{"toxic": "latency", "links": "weather"}, {"toxic": "down", "when": {"probability": 0.5}}],
}


def in_compose(environ, *only):
    """The settings that the agent's container makes of that environment, and the line that repeats them."""
    configuration = load_configuration(environ)
    settings, _ = decide_backend(configuration.settings, configuration.topology)
    source = as_user_named(PromptsSource(str(sample_prompts()), only=list(only)), environ)
    return settings, command(settings, source, lab_id="compose", environ=environ)


def read_back(line):
    words = shlex.split(line)
    return dict(word.split("=", 1) for word in words[: words.index("docker")])


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TOXIC_PROB": "0.3", "TOOL_LIMIT": "2", "IDEMPOTENCY": "off"},
        {"FAULTS": FAULTS, "CHAOS_LEVEL": "0.5"},
        {"TOXICS": "timeout@downstream:400,latency:latency=300;jitter=50"},
        {"MODEL_BASE_URL": "http://host.docker.internal:8080/v1?a=1&b=2", "TRANSLATOR_BACKEND": "offline"},
    ],
)
def test_compose_line_restores_settings(environment):
    settings, line = in_compose({"SEED": "7", **environment})
    assert line.endswith(" docker compose up")
    assert in_compose(read_back(line))[0] == settings


def test_explicit_default_is_named():
    assert in_compose({"SEED": "7", "TOXIC_PROB": "0.1"})[1] == "SEED=7 TOXIC_PROB=0.1 docker compose up"


def test_compose_line_has_presets_files_and_fallback():
    environ = {"SEED": "7", "FAULTS": "light", "FALLBACK": "direct", "HOST_PROMPTS_FILE": "my prompts.json"}
    variables = "SEED=7 FALLBACK=direct FAULTS=light PROMPTS_FILE='my prompts.json'"
    files = "-f docker-compose.yaml -f compose.direct.yaml"
    assert in_compose(environ)[1] == f"{variables} docker compose {files} up"


def test_user_subject_repeats_in_its_container() -> None:
    environ = {"HOST_SUBJECT_IMAGE": "mine", "HOST_SUBJECT_COMMAND": "node a.mjs"}
    prompts, wiring = PromptsSource("/app/mine/prompts.json"), ("mine/wirefault.yaml",)
    settings = Settings(seed=7, translator_backend="offline")
    assert command(settings, prompts, "compose", environ, wiring, Links(())) == (
        "SEED=7 SUBJECT_FOLDER=mine SUBJECT_IMAGE=mine SUBJECT_COMMAND='node a.mjs'"
        " docker compose -f docker-compose.yaml -f compose.subject.yaml up"
    )


def test_native_line_is_demo():
    settings = Settings(seed=7, toxic_prob=0.5, tool_limit=2, translator_backend="offline")
    words = "wirefault demo --seed 7 --toxic-prob 0.5 --tool-limit 2 --prompts few.json"
    assert command(settings, PromptsSource("few.json"), "lab-1a2b3c", {"TOXIC_PROB": "0.5"}) == words


def test_selection_is_repeated() -> None:
    source = PromptsSource(str(sample_prompts()), only=["3", "mine"], match="in Paris")
    words = "wirefault demo --seed 7 --only=3 --only=mine '--match=in Paris'"
    assert command(Settings(seed=7, translator_backend="offline"), source) == words
    picked = "SEED=7 docker compose run --rm agent python -m agent --only=3"
    assert in_compose({"SEED": "7"}, "3")[1] == picked


def test_changed_or_missing_prompts_file(tmp_path: Path) -> None:
    path = tmp_path / "few.json"
    path.write_text('[{"prompt": "x"}]')
    source = load_prompts(path).source
    assert prompts_changed(source) == ""
    path.write_text('[{"prompt": "x"}, {"prompt": "y"}]')
    assert f"{path} has changed since the run" in prompts_changed(source)
    path.unlink()
    assert f"is not here: {path}" in prompts_changed(source)
    os.mkfifo(path)
    assert f"is not here: {path}" in prompts_changed(source)
    assert prompts_changed(PromptsSource()) == ""


def faults_option(faults: str) -> str:
    words = shlex.split(command(Settings(seed=1, faults=faults)))
    return words[words.index("--faults") + 1]


@pytest.mark.parametrize("name", preset_names())
def test_preset_is_named(name: str) -> None:
    assert faults_option(preset(name).dump()) == name


@pytest.mark.parametrize("name", preset_names())
def test_inline_set_round_trips(name: str) -> None:
    changed: dict[str, Any] = json.loads(preset(name).dump())
    changed["faults"][0]["id"] = "mine"
    text = find_set(json.dumps(changed)).dump()
    assert find_set(faults_option(text)).dump() == text


def test_fault_set_defaults_are_omitted() -> None:
    text = find_set(json.dumps(TWO_OF_A_KIND)).dump()
    assert find_set(faults_option(text)).dump() == text
    assert json.loads(faults_option(text))["faults"] == [
        {"fault": "delay", "links": "tools"},
        {"fault": "delay", "id": "delay-2", "when": {"nth": [2, 2]}, "with": {"ms": 9.0}},
    ]


def test_switch_is_on_or_off():
    line = command(Settings(seed=1, idempotency=False, stream=True))
    assert "--idempotency off --stream on " in line


def test_run_of_a_test_is_repeated_by_pytest(tmp_path: Path) -> None:
    test = "tests/test_shop.py::test_order[two teas]"
    events = [replace(run_started(1), subject=test, subject_kind="python"), *episode(ended())]
    events[1] = replace(events[1], prompt=test)
    line = summary_command(summarise([*events, run_finished()]))
    assert line == "pytest 'tests/test_shop.py::test_order[two teas]' --wirefault-seed=7"
    assert with_folder(line, tmp_path / "logs") == line


def test_wiring_run_repeats_wiring():
    settings = Settings(seed=7, toxic_prob=0, error_prob=0.5, translator_backend="offline")
    line = command(settings, PromptsSource("mine.json"), wiring=["my agent.yaml", "--", "sh", "a.sh"])
    assert line == ("wirefault run --seed 7 --error-prob 0.5 --prompts mine.json 'my agent.yaml' -- sh a.sh")


def test_line_names_unchanged_fault_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("faults: [{fault: lose_reply}]", encoding="utf-8")
    configuration = load_configuration({}, {"faults": "mine.yaml", "seed": "7"})
    assert configuration.faults_name == "mine.yaml"

    def line():
        return command(configuration.settings, faults_name=configuration.faults_name)

    assert line().endswith("--faults mine.yaml")
    Path("mine.yaml").write_text("faults: [{fault: delay}]", encoding="utf-8")
    assert "lose_reply" in line() and "mine.yaml" not in line()
    Path("mine.yaml").unlink()
    os.mkfifo("mine.yaml")
    assert "lose_reply" in line()


def test_line_names_single_fault():
    configuration = load_configuration({}, {"faults": "server_error", "seed": "7"})
    assert command(configuration.settings, faults_name="server_error").endswith("--faults server_error")


def test_exec_line_omits_defaults():
    calm = {"toxic_prob": 0, "error_prob": 0, "translator_backend": "offline"}
    settings = Settings.model_validate({"seed": 7, "attempt_time": 600, **calm})
    words = command(settings, wiring=["exec", "--", "curl"])
    assert words == "wirefault exec --seed 7 -- curl"
    assert command(settings).endswith("--toxic-prob 0.0 --error-prob 0.0 --attempt-time 600.0")


def test_line_has_lab_files_of_run():
    files = {"PLAYBOOKS": "my playbooks.yaml", "MOVIES_FILE": "films.json"}
    line = command(Settings(seed=7), lab_files=files)
    assert line.startswith("PLAYBOOKS='my playbooks.yaml' MOVIES_FILE=films.json wirefault demo --seed 7")
    compose = command(
        Settings(seed=7), lab_id="compose", environ={"HOST_PLAYBOOKS": "p.yaml"}, lab_files=files
    )
    assert {"PLAYBOOKS": "p.yaml", "MOVIES_FILE": "films.json"}.items() <= read_back(compose).items()


@pytest.mark.parametrize(
    ("environ", "files"),
    [
        ({}, {}),
        ({"MOVIES_FILE": "flask_tools/movies.json"}, {}),
        (
            {"MOVIES_FILE": "films.json", "PLAYBOOKS": "p.yaml"},
            {"MOVIES_FILE": "films.json", "PLAYBOOKS": "p.yaml"},
        ),
        ({"PLAYBOOKS": "/app/playbooks.yaml", "HOST_PLAYBOOKS": "p.yaml"}, {"PLAYBOOKS": "p.yaml"}),
    ],
)
def test_only_nonshipped_files_are_recorded(environ, files):
    assert load_configuration(environ).lab_files == files
