"""Episodes judged during the run, and the run's end: sealed, and judged again with the same outcomes."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    ended,
    exchange,
    healed,
    run_finished,
    run_started,
    started,
    tried,
)
from wirefault.core.redaction import Redaction
from wirefault.history.events import RunSealed
from wirefault.history.reader import read_history
from wirefault.history.writer import Writer, history_file
from wirefault.judging.judge import judge_run
from wirefault.runner.record import EpisodeJudge, Recorder


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder("run-1", 0, tmp_path, Redaction({"API_KEY": "the-very-key"}))
    yield recorder
    recorder.close()


def at_gateway(logs, *exchanges):
    writer = Writer(history_file(logs, "run-1", "gateway", 0))
    for event in exchanges:
        writer.write(event)
    writer.close()


def judged_live(recorder, tmp_path, messages):
    judge = EpisodeJudge(recorder, tmp_path / "effects.db", messages.append)
    for event in (run_started(), started({}), armed(), ended(), healed()):
        recorder.emit(event)
    judge.read_world(EPISODE)
    judge.judge(EPISODE)
    return judge


def test_late_request_is_in_last_verdict(recorder, tmp_path):
    messages = []
    judge = judged_live(recorder, tmp_path, messages)
    before = recorder.record.judgements[EPISODE].outcome
    at_gateway(tmp_path, exchange(status=502, unavailable=True))
    judge.judge_late_effects()
    recorder.finish(run_finished())
    again = judge_run(read_history(tmp_path, "run-1").events())
    assert messages == [f"prompt {EPISODE}: the end of a request came late; {before} is now invalid"]
    assert (again.episodes[0].outcome, again.differences) == ("invalid", [])


def test_late_record_of_the_agent_is_in_last_judgement(recorder, tmp_path):
    judge = judged_live(recorder, tmp_path, [])
    recorder.emit(tried())
    judge.judge_late_effects()
    recorder.finish(run_finished())
    again = judge_run(read_history(tmp_path, "run-1").events(), {})
    assert (again.episodes[0].costs.requests, again.differences) == (1, [])


def test_request_after_seal_changes_no_verdict(recorder, tmp_path):
    judge = judged_live(recorder, tmp_path, [])
    judge.judge_late_effects()
    recorder.finish(run_finished())
    at_gateway(tmp_path, exchange(status=502, unavailable=True))
    history = read_history(tmp_path, "run-1")
    assert list(history.integrity.remarks()) == ["gateway-0.jsonl: 1 line after the seal, not judged"]
    assert judge_run(history.events()).differences == []


def test_sealed_end_of_run_has_no_secret(recorder, tmp_path):
    recorder.finish(run_finished(completed=False, reason="the-very-key was refused"))
    history = read_history(tmp_path, "run-1")
    finished, seal = history.events()
    assert history.integrity.seal == recorder.seal
    assert (finished.reason, type(seal)) == ("[secret] was refused", RunSealed)
    assert recorder.record.events == [finished, seal]
