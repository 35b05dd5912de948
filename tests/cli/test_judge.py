"""``wirefault runs verify``: exit codes, and its text about the history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tests.judging.oracle.histories import ASK_BOB, episode, message_sent, run_finished, run_started, world
from tests.support import replace
from wirefault.cli.main import main
from wirefault.faults.sets.presets import find_set
from wirefault.history.events import Event, RunFinished, RunSealed
from wirefault.history.judged_events import Costs, Finding
from wirefault.history.writer import Writer, history_file
from wirefault.judging.judge import judge_run
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Links

START = replace(run_started(1), run_id="run-1", settings=Settings(seed=1).model_dump())
EVENTS = [START, *episode(world(message_sent()), expect=ASK_BOB)]
VERDICT = replace(judge_run([*EVENTS, run_finished()]).episodes[0], t=120.0)
WHOLE = [*EVENTS, VERDICT, run_finished(), RunSealed({})]


def judge(folder: Path, events: Iterable[Event], *arguments: str) -> Result:
    writer = Writer(history_file(folder, "run-1", "agent", 0))
    for event in events:
        writer.write(event)
    writer.close()
    return CliRunner().invoke(main, ["runs", "verify", "run-1", *arguments], env={"LOGS_DIR": str(folder)})


def test_sealed_run_with_equal_scores_is_0(tmp_path):
    result = judge(tmp_path, WHOLE)
    assert result.exit_code == 0
    assert "seal" not in result.output and "scored differently" not in result.output


@pytest.mark.parametrize(
    ("field", "recorded", "text"),
    [
        ("outcome", "duplicate", "success, recorded as duplicate"),
        ("touched", True, "touched False, recorded as True"),
        ("flags", ["late"], "flags [], recorded as ['late']"),
        ("findings", (Finding("open_stream", "risky", "text"),), "findings [], recorded as [{'rule': 'open_"),
        ("by_outcome", Finding("duplicate", "harmful", "text"), "by_outcome None, recorded as {'rule': "),
        ("costs", Costs(tokens_in=7), "costs.tokens_in None, recorded as 7"),
    ],
)
def test_different_judgement_is_2_and_names_the_field(tmp_path, field, recorded, text):
    other = replace(VERDICT, **{field: recorded})
    result = judge(tmp_path, [other if event is VERDICT else event for event in WHOLE])
    assert result.exit_code == 2
    assert f"scored differently: episode 001: {text}" in " ".join(result.output.split())


def test_killed_run_is_unsealed_and_judged(tmp_path):
    result = judge(tmp_path, [event for event in WHOLE if not isinstance(event, RunFinished | RunSealed)])
    assert result.exit_code == 0
    assert "unsealed: the run was killed or is still running" in result.output
    assert "100 %" in result.output


def test_altered_run_is_2_and_not_scored(tmp_path):
    altered = [event for event in WHOLE if not isinstance(event, RunSealed)]
    result = judge(tmp_path, altered, "--json")
    place = f"{tmp_path}/runs/run-1/agent-0.jsonl:{len(altered) + 1}: altered or lost: run_sealed"
    assert result.exit_code == 2
    assert result.stderr.startswith(f"altered: {place}")
    document = json.loads(result.stdout)
    assert (document["run_id"], len(document["altered"]), "success" in document) == ("run-1", 1, False)


@pytest.mark.parametrize("line", [b"no JSON", b"{}", b'{"event":"nonsense"}', b"[" * 9999, b"\xff", b""])
def test_inserted_line_is_named(tmp_path, line):
    assert judge(tmp_path, WHOLE).exit_code == 0
    path = history_file(tmp_path, "run-1", "agent", 0)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, line + b"\n", *rest]))
    result = judge(tmp_path, [])
    assert (result.exit_code, "agent-0.jsonl:2: altered or inserted" in result.stderr) == (2, True)


def test_event_is_printed_by_id(tmp_path):
    result = judge(tmp_path, WHOLE, "--event", "agent-0:2")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["event"] == "episode_started"


@pytest.mark.parametrize("id", ["agent-0:0", "agent-0:99", "agent-0", "gateway-0:1", "agent-0:x", ":1"])
def test_missing_event_names_known_ones(tmp_path, id):
    result = judge(tmp_path, WHOLE, "--event", id)
    assert result.exit_code != 0
    assert f"unknown event {id}; there are agent-0:1 to :{len(WHOLE)}" in result.output


def test_json_has_findings(tmp_path):
    assert json.loads(judge(tmp_path, WHOLE, "--json").output)["findings"] == []


def test_live_traffic_has_no_repeat_line(tmp_path):
    writer = Writer(history_file(tmp_path, "live-lab", "manager", 0))
    for event in [replace(START, run_id="live-lab"), *EVENTS[1:]]:
        writer.write(event)
    writer.close()
    result = CliRunner().invoke(main, ["runs", "verify", "live-lab"], env={"LOGS_DIR": str(tmp_path)})
    assert result.exit_code == 0 and "live-lab" in result.output
    assert "wirefault demo" not in result.output


def test_exec_run_with_faults_on_found_links_is_shown(tmp_path):
    links = Links((), grows=True)
    chosen = {"seed": 1, "faults": find_set("lost-replies", links).dump()}
    settings = Settings.model_validate(chosen, context={"links": links}).model_dump()
    start = replace(
        START, settings=settings, wiring_arguments=["exec", "--", "curl", "-s", "http://127.0.0.1:9"]
    )
    result = judge(tmp_path, [start, *WHOLE[1:]])
    assert "wirefault exec --seed 1" in result.output and "--faults lost-replies" in result.output


def test_junit_of_a_lone_run_has_the_cases_that_decide(tmp_path):
    """A test of pytest is recorded as a lone run."""
    judge(tmp_path, WHOLE)
    written = CliRunner().invoke(main, ["report", "run-1", "--junit", "-"], env={"LOGS_DIR": str(tmp_path)})
    root = ElementTree.fromstring(written.stdout.partition("?>")[2])
    cases = {each.get("name"): [child.tag for child in each] for each in root.iter("testcase")}
    errors = ["error"] if written.exit_code == 2 else []
    assert cases == {"no harmful or risky finding": ["properties"], "faults were injected": errors}
