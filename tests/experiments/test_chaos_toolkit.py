"""An experiment of the Chaos Toolkit is refused with what its activities are called here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import load_experiments
from wirefault.faults.sets.presets import find_set


def python(function: str, module: str = "chaostoxi.toxic.actions", **arguments: Any) -> dict[str, Any]:
    provider = {"type": "python", "module": module, "func": function, "arguments": arguments}
    return {"type": "action", "name": "act", "provider": provider}


def refused(folder: Path, data: dict[str, Any], name: str = "experiment.json") -> str:
    path = folder / name
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        load_experiments(path)
    return str(caught.value)


ACTIONS: list[tuple[dict[str, Any], str]] = [
    (
        python("create_latency_toxic", for_proxy="db", toxic_name="l", latency=300, jitter=20),
        "{toxic: latency, links: db, stream: downstream, with: {latency: 300, jitter: 20}}",
    ),
    (
        python("create_limiter_toxic", for_proxy="db", bytes_limit=9),
        "{toxic: limit_data, links: db, stream: down",
    ),
    (
        python(
            "create_toxic", for_proxy="db", toxic_type="timeout", stream="upstream", attributes={"timeout": 5}
        ),
        "{toxic: timeout, links: db, stream: upstream, with: {timeout: 5}}",
    ),
    (python("disable_proxy", "chaostoxi.proxy.actions", proxy_name="db"), "toxic: down on the link"),
    (python("delete_toxic", for_proxy="db"), "not needed: toxics are removed after each attempt"),
    (python("create_magic_toxic"), "unknown function create_magic_toxic of chaostoolkit-toxiproxy"),
    (
        python("terminate_pods", "chaosk8s.pod.actions"),
        "no counterpart (chaosk8s.pod.actions.terminate_pods)",
    ),
    (
        {"type": "action", "provider": {"type": "process", "path": "/bin/tc"}},
        "not by command (/bin/tc): write a",
    ),
    (
        {"type": "action", "provider": {"type": "process", "path": "reset.sh"}},
        "{reset: {command: [reset.sh, ...]}}",
    ),
    (
        {
            "type": "action",
            "provider": {"type": "http", "url": "http://a:secret@x/r?token=y", "method": "POST"},
        },
        "`world: {reset: {http: POST http://x/r}}` of the wiring",
    ),
    ({"type": "probe", "provider": {"type": "http", "url": "http://x/h"}}, "{probe: {http: GET http://x/h}}"),
]


@pytest.mark.parametrize(("action", "expected"), ACTIONS)
def test_toolkit_action_names_equivalent(tmp_path: Path, action: dict[str, Any], expected: str) -> None:
    message = refused(tmp_path, {"title": "x", "description": "y", "method": [action]})
    first, line = message.splitlines()
    assert first.startswith(f"{tmp_path}/experiment.json: an experiment of the Chaos Toolkit")
    assert line.startswith("  method[1] ") and expected in line
    assert "secret" not in message and "token" not in message


def test_printed_toxic_is_a_valid_entry(tmp_path: Path) -> None:
    action = python("create_slicer_toxic", for_proxy="weather", average_size=9, size_variation=2, delay=1)
    entry = refused(tmp_path, {"title": "x", "method": [action]}).split("`")[1]
    [toxic] = find_set(f"toxics:\n  {entry}\n").toxics
    assert (toxic.spec.kind, toxic.links) == ("slicer", ("weather",))


def test_hypothesis_and_rollbacks_are_listed_from_yaml_too(tmp_path: Path) -> None:
    probe = {"type": "probe", "name": "alive", "provider": {"type": "process", "path": "check"}}
    data = {"title": "x", "steady-state-hypothesis": {"title": "ok", "probes": [probe]}, "method": []}
    message = refused(tmp_path, {**data, "rollbacks": [python("reset")]}, "experiment.yaml")
    assert [line.split()[0] for line in message.splitlines()[1:]] == [
        "steady-state-hypothesis.probes[1]",
        "rollbacks[1]",
    ]


def test_invalid_experiment_is_not_mistaken_for_chaos_toolkit(tmp_path: Path) -> None:
    message = refused(tmp_path, {"title": "x", "method": [], "hypothesis": ["no duplicate"]})
    assert "Chaos Toolkit" not in message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rate_limt", "did you mean 'rate_limit'?"),
        ("lost-replis", "did you mean 'lost-replies'?"),
        ("zzz", "valid:"),
    ],
)
def test_misspelt_fault_set_suggests_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="unknown fault set") as caught:
        find_set(name)
    assert hint in str(caught.value)
