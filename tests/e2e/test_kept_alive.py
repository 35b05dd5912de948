"""Clients that outlive an attempt: requests are recorded in the right attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.e2e.lab import SETTINGS, SharedLab
from wirefault.history.events import AttemptHealed, Exchange, Report, WorldRead
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.wiring.prompts import load_prompts

NAMES = ["Ann", "Bob", "Cid", "Dot"]


class Messenger(Subject):
    """Sends the requested message over one client, without lab headers."""

    name = "a client that keeps its connections"

    def __init__(self, session: requests.Session) -> None:
        self._session = session

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        url = context.topology.proxies["message"].url + "/message"
        reply = self._session.post(
            url, json={"to": prompt.split()[-1], "body": "hello"}, timeout=context.settings.tool_timeout
        )
        status = "done" if reply.ok else "failed"
        return SubjectResult("report", Report(status, reply.text), reply.text)


@pytest.fixture
def messenger() -> Iterator[Messenger]:
    with requests.Session() as session:
        session.trust_env = False
        yield Messenger(session)


def test_four_clean_prompts_have_right_verdicts(
    shared: SharedLab, messenger: Messenger, tmp_path: Path
) -> None:
    entries = [
        {
            "prompt": f"Send hello to {name}",
            "expect": {"effects": [{"kind": "message_sent", "fields": {"to": name, "body": "hello"}}]},
        }
        for name in NAMES
    ]
    (tmp_path / "prompts.json").write_text(json.dumps(entries), encoding="utf-8")
    prompts = load_prompts(tmp_path / "prompts.json").entries
    lab_run = shared.run_subject(messenger, *prompts, settings=Settings(**SETTINGS))
    assert lab_run.outcomes == ["success"] * 4
    assert [healed.settled for healed in lab_run.of(AttemptHealed)] == [True] * 4
    recipients = [[effect["fields"]["to"] for effect in read.effects] for read in lab_run.of(WorldRead)]
    assert recipients == [[name] for name in NAMES]
    assert len({exchange.episode for exchange in lab_run.of(Exchange)}) == 4
