"""Each outcome of the table ends a real run, through real processes, in exactly that outcome."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.e2e.lab import SAMPLES, SharedLab, in_folder, sample
from tests.shared_imports import shared_imports
from wirefault.history.events import AttemptArmed, Exchange, ToolCalled, ToolTry, WorldRead
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.prompts import Prompt

TEMPERATURE = "temperature in Paris"
MESSAGE = "Send Bob a message"
LOST_REPLY = "timeout@downstream:400"
HELD_REQUEST = "latency@upstream:4500"


def test_success_without_side_effects(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE))
    assert lab_run.outcomes == ["success"]
    assert lab_run.summary.episodes[0].world == "as_asked"


def test_every_sample_prompt_succeeds_without_faults(shared: SharedLab) -> None:
    lab_run = shared.run()
    others = [
        (one.prompt, one.outcome, one.why) for one in lab_run.summary.episodes if one.outcome != "success"
    ]
    assert others == []
    assert len(lab_run.outcomes) >= 24


def test_honest_failure(shared: SharedLab) -> None:
    lab_run = shared.run(sample(TEMPERATURE), toxic_prob=1, toxics="timeout:400")
    assert lab_run.outcomes == ["honest_failure"]


def test_false_success_of_fabricator(shared: SharedLab) -> None:
    lab_run = shared.run(sample(TEMPERATURE), toxic_prob=1, toxics="timeout:400", persona="fabricator")
    assert lab_run.outcomes == ["false_success"]
    assert lab_run.summary.episodes[0].claim == "done"


def test_diligent_sends_once_and_reports_unsure(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics=LOST_REPLY, tool_limit=3)
    assert lab_run.outcomes == ["unconfirmed"]
    assert len(lab_run.of(ToolCalled)) == 1
    assert len(lab_run.of(ToolTry)) == 3
    assert len({one.idempotency_key for one in lab_run.of(ToolTry)}) == 1
    assert len(lab_run.of(WorldRead)[-1].effects) == 1


def test_stubborn_repeats_with_new_key_and_sends_twice(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics=LOST_REPLY, persona="stubborn", model_calls=4)
    assert lab_run.outcomes == ["duplicate"]
    assert len({one.idempotency_key for one in lab_run.of(ToolTry)}) == len(lab_run.of(ToolCalled)) > 1


def test_retries_without_idempotency_duplicate(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics=LOST_REPLY, tool_limit=3, idempotency=False)
    assert lab_run.outcomes == ["duplicate"]
    assert len(lab_run.of(ToolCalled)) == 1
    assert len(lab_run.of(WorldRead)[-1].effects) == 3


def test_late_side_effect_belongs_to_its_world(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics=HELD_REQUEST, tool_timeout=0.3)
    assert lab_run.outcomes == ["unconfirmed"]
    assert "late" in lab_run.summary.episodes[0].flags
    assert len(lab_run.of(WorldRead)[-1].effects) == 1


def test_false_failure(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics=LOST_REPLY, persona="quitter")
    assert lab_run.outcomes == ["false_failure"]


def test_runaway(shared: SharedLab) -> None:
    lab_run = shared.run(
        sample(TEMPERATURE), toxic_prob=1, toxics="timeout:100", persona="stubborn", model_calls=3
    )
    assert lab_run.outcomes == ["runaway"]


def test_crash(shared: SharedLab) -> None:
    lab_run = shared.run(sample(TEMPERATURE), model_timeout=0.0001)
    assert lab_run.outcomes == ["crash"]


def test_unjudged(shared: SharedLab) -> None:
    lab_run = shared.run(Prompt("unjudged", "What is the temperature in Paris?"))
    assert lab_run.outcomes == ["unjudged"]
    assert lab_run.summary.success.rate is None
    assert any("unjudged" in remark or "no oracle" in remark for remark in lab_run.summary.remarks)


def test_unarmed_attempt_is_invalid(shared: SharedLab) -> None:
    lab_run = shared.run(sample(TEMPERATURE), arm_timeout=0.00001)
    assert lab_run.outcomes == ["invalid"]
    assert lab_run.of(ToolTry) == []


def test_run_that_cannot_arm_ends_with_reason(tmp_path: Path) -> None:
    configuration = in_folder(load_configuration(os.environ), tmp_path)
    with (
        shared_imports(),
        Lab(configuration, Choice("executable", executable=str(without_slicer(tmp_path)))) as lab,
    ):
        shared = SharedLab(lab, configuration)
        lab_run = shared.run(to_its_end=False, toxic_prob=1, toxics="slicer:10", arm_timeout=2)
    assert lab_run.outcomes == ["invalid"] * 3
    assert not lab_run.record.completed
    assert "toxic type" in lab_run.record.reason and "not armed within 2 s" in lab_run.record.reason


def without_slicer(folder: Path) -> Path:
    """A program that acts as a Toxiproxy older than the slicer."""
    program = folder / "toxiproxy-server"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from wirefault.toxiproxy.embedded.__main__ import main\n"
        "from wirefault.toxiproxy.toxics import SERVER_TOXICS\n"
        "del SERVER_TOXICS['slicer']\n"
        "sys.exit(main([f'-{word}' if word.startswith('-') else word for word in sys.argv[1:]]))\n"
    )
    program.chmod(0o755)
    return program


def test_compatible_server_with_path_prefix(shared: SharedLab) -> None:
    server = shared.lab.topology.services["model"].url
    lab_run = shared.run(
        sample(MESSAGE), model="compatible", model_base_url=f"{server}/v1", groq_model="scripted-quitter"
    )
    assert lab_run.outcomes == ["success"]
    assert {one.target for one in lab_run.of(Exchange) if one.link == "model"} == {
        "/openai/v1/chat/completions"
    }


def test_direct_fallback_survives_outage(shared: SharedLab) -> None:
    lab_run = shared.run(sample(MESSAGE), toxic_prob=1, toxics="timeout@upstream:100", fallback="direct")
    assert lab_run.outcomes == ["success"]
    assert [one.route for one in lab_run.of(ToolTry)] == ["proxy", "direct"]
    assert lab_run.of(ToolCalled)[0].fallback_used


def test_second_attempt_survives_outage_of_first(shared: SharedLab) -> None:
    lab_run = shared.run(*SAMPLES[::2], prompt_limit=4, toxic_prob=0.5, toxics="timeout:50")
    again = [episode for episode in lab_run.summary.episodes if episode.attempts > 1]
    assert again
    assert lab_run.summary.success.k > lab_run.summary.first_attempt.k


def test_retry_survives_transient_error(shared: SharedLab) -> None:
    lab_run = shared.run(error_prob=0.3, tool_limit=4)
    injected = [one for one in lab_run.of(Exchange) if one.faults]
    assert injected and not any(one.forwarded for one in injected)
    assert lab_run.summary.success.k > len(lab_run.outcomes) * 0.8


def test_certain_toxics_are_all_observed_and_nothing_is_invalid(shared: SharedLab) -> None:
    toxics = "timeout:400,latency:300,latency:3000"
    lab_run = shared.run(*SAMPLES[::2], toxic_prob=1, toxics=toxics, tool_timeout=2)
    assert "invalid" not in lab_run.outcomes
    assert len(lab_run.of(AttemptArmed)) == len(lab_run.outcomes)
    armed = {(one.episode, one.attempt): one.t for one in lab_run.of(AttemptArmed)}
    assert all(armed[one.episode, one.attempt] <= one.start for one in lab_run.of(ToolTry))
    met_faults = [
        fault for episode in lab_run.summary.episodes for fault in episode.faults if fault.reached("met")
    ]
    assert len(met_faults) >= 10
    assert [fault for fault in met_faults if not fault.reached("observed")] == []
    assert lab_run.summary.unexplained == 0
    assert lab_run.summary.toxics_left == 0
