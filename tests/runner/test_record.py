"""A run's own notes about records of the other processes."""

from __future__ import annotations

import json
from pathlib import Path

from wirefault.core.redaction import Redaction
from wirefault.history.events import (
    ConnectionEnded,
    EpisodeJudged,
    EpisodeStarted,
    Note,
    RunStarted,
    WentPastLab,
)
from wirefault.history.writer import Writer, history_file
from wirefault.runner.record import Recorder


def ended(host: str, why: str, *, tunnelled: bool) -> ConnectionEnded:
    return ConnectionEnded(
        *(2.0, "", "1-1", 1, 1.0, 1000.0, None, 0, 0, "client", "fin", True, host, 443, "proxy"),
        tunnelled=tunnelled,
        why=why,
    )


def test_uncaught_traffic_is_noted_once_with_reason(tmp_path: Path) -> None:
    recorder = Recorder("run-1", 0, tmp_path, Redaction())
    ingress = Writer(history_file(tmp_path, "run-1", "ingress", 0))
    for _ in range(2):
        ingress.write(ended("a.example", "--pass names it", tunnelled=True))
        ingress.write(ended("b.example", "--refuse names it", tunnelled=False))
        ingress.write(ended("c.example", "", tunnelled=False))
        assert len(recorder.take_from_others()) == 3
    notes = [event.message for event in recorder.record.events if isinstance(event, Note)]
    assert notes == [
        "a.example:443 bypassed the lab: --pass names it",
        "b.example:443 was refused: --refuse names it",
    ]
    ingress.close()
    recorder.close()


def test_claim_without_oracle_is_in_info_log(tmp_path: Path) -> None:
    recorder = Recorder("run-1", 0, tmp_path, Redaction())
    recorder.emit(RunStarted(1.0, "run-1", "lab", 0, 7, {}, "an agent", 2))
    for number, expect in enumerate((None, {"values": []}), start=1):
        recorder.emit(EpisodeStarted(1.0, f"e{number}", "prompt", expect))
        recorder.progress_line(number, EpisodeJudged(2.0, f"e{number}", "unjudged", claim="done"))
    recorder.close()
    lines = map(json.loads, (tmp_path / "info.log").read_text().splitlines())
    judged = [(line["message"], line.get("claim")) for line in lines if line["event"] == "prompt_processed"]
    assert judged == [("prompt 1: unjudged, said done", "done"), ("prompt 2: unjudged", None)]


def test_unread_link_connection_is_noted_once(tmp_path: Path) -> None:
    recorder = Recorder("run-1", 0, tmp_path, Redaction())
    gateway = Writer(history_file(tmp_path, "run-1", "gateway", 0))
    past = WentPastLab(1.0, "1-1", 1, "127.0.0.1", 9000, "tcp", "the subject", 1, "shop", only_http2=True)
    for _ in range(2):
        gateway.write(past)
    recorder.take_from_others()
    notes = [event.message for event in recorder.record.events if isinstance(event, Note)]
    assert notes == [past.sentence]
    gateway.close()
    recorder.close()
