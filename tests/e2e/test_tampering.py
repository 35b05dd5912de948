"""Every edit of ``tampering.txt`` on a run and an experiment: each command that reads it names the place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.commands import draw_charts, wirefault
from tests.e2e.lab import SETTINGS, SharedLab, Silence, sample
from tests.lab.demos import environ_in
from tests.support import ROOT, replace
from wirefault.cli.main import main
from wirefault.experiments.evidence import evidence_of, sign_recording
from wirefault.history.lines import unlinked
from wirefault.history.reader import announced_seal, read_history
from wirefault.history.writer import Writer
from wirefault.runner.run import run_prompts
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, SubjectResult, as_subject
from wirefault.wiring.prompts import load_prompts

CASES = (ROOT / "tests" / "history" / "cases" / "tampering.txt").read_text(encoding="utf-8").splitlines()
CHAOS: dict[str, Any] = {
    "faults": {
        "faults": [{"fault": "unavailable", "links": "weather"}],
        "toxics": [{"toxic": "latency", "links": "message", "with": {"latency": 50}}],
    }
}
GATEWAY, AGENT, MANAGER = "gateway-0.jsonl", "agent-0.jsonl", "manager-0.jsonl"

Lines = list[bytes]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def recorded(shared: SharedLab) -> Path:
    """The folder of a run with a failed report, a message that was sent, a toxic and a fault."""
    lab_run = shared.run(sample("temperature in Paris"), sample("Send Bob a message"), **CHAOS)
    return shared.configuration.logs / "runs" / lab_run.record.run_id


class Run:
    """A copy of the run's files, to be altered."""

    def __init__(self, recorded: Path, logs: Path) -> None:
        self.logs = logs
        self.folder = Path(shutil.copytree(recorded, logs / "runs" / recorded.name))

    def lines(self, file: str) -> Lines:
        return (self.folder / file).read_bytes().splitlines()

    def write(self, file: str, lines: Lines) -> None:
        (self.folder / file).write_bytes(b"".join(line + b"\n" for line in lines))

    def find(self, file: str, event: str, fits: Callable[[dict[str, Any]], Any] = lambda _: True) -> int:
        """The index of the first such event in its file."""
        records = map(json.loads, self.lines(file))
        return next(place for place, one in enumerate(records) if one["event"] == event and fits(one))

    def change(self, file: str, place: int, change: Change) -> None:
        lines = self.lines(file)
        record = json.loads(lines[place])
        change(record)
        lines[place] = dumped(record)
        self.write(file, lines)

    def put(self, file: str, place: int, line: bytes) -> None:
        lines = self.lines(file)
        self.write(file, [*lines[:place], line, *lines[place:]])

    def remove(self, file: str, place: int) -> None:
        lines = self.lines(file)
        del lines[place]
        self.write(file, lines)

    def judge(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            main, ["runs", "verify", self.folder.name, *arguments], env={"LOGS_DIR": str(self.logs)}
        )


def dumped(record: dict[str, Any]) -> bytes:
    """As the product writes it."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Run:
    return Run(recorded, tmp_path)


def alters(
    file: str, event: str, change: Change, fits: Callable[[dict[str, Any]], Any] = bool
) -> Callable[[Run], None]:
    return lambda run: run.change(file, run.find(file, event, fits), change)


def removes(file: str, event: str) -> Callable[[Run], None]:
    return lambda run: run.remove(file, run.find(file, event))


def report_failed(record: dict[str, Any]) -> bool:
    return bool(record.get("report") and record["report"]["status"] == "failed")


def take_out_an_episode(run: Run) -> None:
    first = json.loads(run.lines(AGENT)[run.find(AGENT, "episode_started")])["episode"]
    for file in (AGENT, GATEWAY, MANAGER):
        run.write(file, [line for line in run.lines(file) if json.loads(line).get("episode") != first])


def empty_the_oracle(record: dict[str, Any]) -> None:
    record["expect"] = {}


def call_it_success(record: dict[str, Any]) -> None:
    record["outcome"] = "success"


def empty_the_oracle_and_call_it_success(run: Run) -> None:
    alters(AGENT, "episode_started", empty_the_oracle)(run)
    alters(AGENT, "episode_judged", call_it_success)(run)


def double_a_try(run: Run) -> None:
    place = run.find(AGENT, "tool_try")
    run.put(AGENT, place, run.lines(AGENT)[place])


def write_the_gateways_file_anew(run: Run) -> None:
    records = [unlinked(line) or b"" for line in run.lines(GATEWAY)]
    (run.folder / GATEWAY).unlink()
    writer = Writer(run.folder / GATEWAY)
    writer.write_lines(record.replace(b'"status":503', b'"status":500') for record in records)
    writer.close()


EDITS: dict[str, Callable[[Run], None]] = {
    "agent-0 attempt_ended report.status failed -> done": alters(
        AGENT, "attempt_ended", lambda record: record["report"].update(status="done"), report_failed
    ),
    "agent-0 world_read one effect taken out": alters(
        AGENT, "world_read", lambda record: record["effects"].pop(), lambda record: record.get("effects")
    ),
    "agent-0 episode_started expect emptied": alters(AGENT, "episode_started", empty_the_oracle),
    "agent-0 episode_judged outcome changed to success": alters(AGENT, "episode_judged", call_it_success),
    "agent-0 both of the last two, in one episode": empty_the_oracle_and_call_it_success,
    "agent-0 tool_try ms changed": alters(AGENT, "tool_try", lambda record: record.update(ms=1.0)),
    "gateway-0 exchange deleted (its try is still there)": removes(GATEWAY, "exchange"),
    "gateway-0 exchange its faults emptied": alters(
        GATEWAY, "exchange", lambda record: record["faults"].clear(), lambda record: record.get("faults")
    ),
    "gateway-0 exchange injected true -> false, with a reason": alters(
        GATEWAY,
        "exchange",
        lambda record: record["faults"][0].update(injected=False, why_not="client_left"),
        lambda record: record.get("faults"),
    ),
    "all every line of one episode taken out": take_out_an_episode,
    "agent-0 run_started seed changed": alters(AGENT, "run_started", lambda record: record.update(seed=99)),
    "agent-0 run_started settings.toxic_prob changed": alters(
        AGENT, "run_started", lambda record: record["settings"].update(toxic_prob=0.9)
    ),
    "agent-0 attempt_armed toxics emptied": alters(
        AGENT, "attempt_armed", lambda record: record["toxics"].clear(), lambda record: record.get("toxics")
    ),
    "agent-0 tool_try line doubled": double_a_try,
    "agent-0 a line that is no JSON": lambda run: run.put(AGENT, 3, b"no JSON at all"),
    "agent-0 tool_try a field more": alters(AGENT, "tool_try", lambda record: record.update(more=1)),
    "agent-0 an unknown event": lambda run: run.put(AGENT, 3, b'{"t":1.0,"event":"nonsense"}'),
    "gateway-0 file missing": lambda run: (run.folder / GATEWAY).unlink(),
    "gateway-0 file empty": lambda run: run.write(GATEWAY, []),
    "manager-0 file missing": lambda run: (run.folder / MANAGER).unlink(),
    "agent-0 run_finished missing": removes(AGENT, "run_finished"),
    "gateway-0 last line cut": lambda run: run.write(GATEWAY, run.lines(GATEWAY)[:-1]),
    "agent-0 attempt_healed missing": removes(AGENT, "attempt_healed"),
    "agent-0 attempt_healed settled true -> false": alters(
        AGENT, "attempt_healed", lambda record: record.update(settled=False)
    ),
    "gateway-0 the whole file written anew with a chain of its own": write_the_gateways_file_anew,
}


def first_differences(run: Run, recorded: Path) -> Iterator[tuple[str, int]]:
    """The file and number of the first line that differs from the recording, for each altered file."""
    for path in sorted(recorded.glob("*.jsonl")):
        before = path.read_bytes().splitlines()
        now = run.lines(path.name) if (run.folder / path.name).exists() else []
        if now != before:
            yield (
                path.name,
                next(
                    (n for n, pair in enumerate(zip(now, before, strict=False), 1) if pair[0] != pair[1]),
                    min(len(now), len(before)) + 1,
                ),
            )


def test_unaltered_run_is_sealed_and_judged(run: Run) -> None:
    result = run.judge("--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert len(document["seal"]) == 32 and document["altered"] == []
    assert "seal" not in " ".join(document["remarks"])


@pytest.mark.parametrize("case", [" ".join(case.split()) for case in CASES])
def test_edit_is_named_by_file_and_line_and_not_scored(case: str, run: Run, recorded: Path) -> None:
    EDITS[case](run)
    result = run.judge()
    named = [line.split(" ")[1].rsplit("/")[-1] for line in result.stderr.splitlines()[:-1]]
    if "written anew" in case:  # its own chain is intact, so only its last line is compared with the seal
        places = [f"{GATEWAY}:{len(run.lines(GATEWAY))}:"]
    else:
        places = [f"{file}:{line}:" for file, line in first_differences(run, recorded)]
    assert named == places
    assert (result.exit_code, result.stdout) == (2, "")
    assert isinstance(result.exception, SystemExit)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the arm with faults of a signed experiment, with the prompts and faults of ``recorded``."""
    folder = tmp_path_factory.mktemp("experiment")
    entries = json.loads((ROOT / "agent" / "prompts.json").read_text(encoding="utf-8"))
    wanted = ("temperature in Paris", "Send Bob a message")
    document = {
        "title": "Weather and a message",
        "prompts": [entry for entry in entries if any(part in entry["prompt"] for part in wanted)],
        "seed": 1,
        "settings": {"arm_timeout": 30, "settle_bound": 10, "tool_timeout": 3, "attempt_time": 120},
        "method": CHAOS,
        "hypothesis": ["no duplicate"],
    }
    (folder / "exp.json").write_text(json.dumps(document), encoding="utf-8")
    done = wirefault(folder, environ_in(folder), "run", "exp.json", "--toxiproxy", "embedded")
    assert done.returncode in (0, 1, 2), done.stderr
    [run] = (folder / ".wirefault" / "logs" / "runs").glob("*-2-method")
    return run


RUN_READERS = (
    "runs verify RUN", "runs verify RUN --json", "report RUN", "show RUN", "show RUN 1", "compare RUN RUN",
)  # fmt: skip
LONE_READERS = ("list", "runs bundle RUN bundle.tar.gz", "charts RUN")
ARM_READERS = ("charts RUN", "run --again RUN")
EXPERIMENT_READERS = (
    "runs verify ID", "runs verify ID --json", "report ID", "report ID --json", "report ID --junit -",
    "show ID --arm method", "show ID 1 --arm method", "compare ID ID", "list",
    "runs bundle ID bundle.tar.gz", "run --resume ID", "run --again ID",
)  # fmt: skip
KINDS = {
    "signed run": (*RUN_READERS, *LONE_READERS),
    "run without a signature": (*RUN_READERS, *LONE_READERS),
    "experiment": (*EXPERIMENT_READERS, *RUN_READERS, *ARM_READERS),
    "experiment without a signature": (*EXPERIMENT_READERS, *RUN_READERS, *ARM_READERS),
}


def read_by(command: str, run: Run) -> Result:
    experiment = run.folder.name.removesuffix("-2-method")
    words = [{"RUN": run.folder.name, "ID": experiment}.get(word, word) for word in command.split()]
    if words[0] == "charts":
        return draw_charts("--run", words[1], "--logs", str(run.logs))
    return CliRunner().invoke(main, words, env={"LOGS_DIR": str(run.logs)})


def edit_with_kept_times(run: Run, case: str) -> None:
    times = {path: path.stat() for path in run.folder.iterdir()}
    EDITS[case](run)
    for path in run.folder.iterdir():
        os.utime(path, ns=(times[path].st_atime_ns, times[path].st_mtime_ns))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [" ".join(case.split()) for case in CASES])
def test_each_command_detects_edit(
    case: str, kind: str, recorded: Path, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = experiment if "experiment" in kind else recorded
    run = Run(original, tmp_path)
    monkeypatch.chdir(tmp_path)
    if "experiment" in kind:
        shutil.copytree(experiment.parents[1], tmp_path, dirs_exist_ok=True)
    elif kind == "signed run":
        sign_recording(tmp_path, run.folder.name)
    if "without" in kind:
        for manifest in tmp_path.glob("experiments/*/manifest.json"):
            manifest.unlink()
    state = "whole" if "without" in kind else "signed"
    assert evidence_of(tmp_path, run.folder.name).state == state
    edit_with_kept_times(run, case)
    altered = next(iter(first_differences(run, original)))[0]
    for command in KINDS[kind]:
        result = read_by(command, run)
        assert result.exit_code == 2 and isinstance(result.exception, SystemExit), (command, result.output)
        assert f"{altered}:" in result.output and "altered: " in result.output, (command, result.output)
    assert not (tmp_path / "bundle.tar.gz").exists()


def say_hello(prompt: str, context: AttemptContext) -> SubjectResult:
    return SubjectResult("text", response="Hello")


def test_truncated_history_is_detected_by_seal_in_info_log(shared: SharedLab, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.json"
    prompts.write_text('[{"prompt": "Hello"}]', encoding="utf-8")
    configuration = replace(shared.configuration, settings=Settings(**SETTINGS), topology=shared.lab.topology)
    run_prompts("the-run", configuration, as_subject(say_hello), load_prompts(prompts), Silence())
    logs = configuration.logs
    before = read_history(logs, "the-run")
    assert announced_seal(logs, "the-run") == before.integrity.seal != ""
    agent = before.folder / AGENT
    agent.write_bytes(b"".join(agent.read_bytes().splitlines(keepends=True)[:-2]))
    [alteration] = read_history(logs, "the-run").integrity.alterations
    assert "lost: the end of the run" in str(alteration)
