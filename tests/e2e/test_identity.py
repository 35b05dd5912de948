"""Who is believed about its requests: the lab's own agent, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.support import latest_run
from wirefault.history.events import AttemptEnded, Event, Exchange
from wirefault.history.reader import read_history

pytestmark = pytest.mark.slow

# It claims, in this order: tries of its choice, another run, another episode, another attempt.
CLAIMING = """
import json, os, requests
from contextlib import contextmanager
from dataclasses import replace
from wirefault.subjects.subject import SubjectResult

def claim(prompt, context):
    own, proxy = context.identity, context.topology.proxies["search"].url
    claims = [replace(own, call=7, try_=9)] * 2
    claims += [replace(own, run="other"), replace(own, episode="first"), replace(own, attempt=9)]
    statuses = [
        requests.get(proxy + "/search", params={"q": "x"}, headers=identity.headers("search")).status_code
        for identity in claims
    ]
    keys = [name for name in os.environ if "KEY_FD" in name]
    for number in os.listdir("/proc/self/fd"):
        try:
            keys += [link for link in [os.readlink(f"/proc/self/fd/{number}")] if "run_key" in link]
        except OSError:
            continue
    text = json.dumps({"statuses": statuses, "keys": keys})
    return SubjectResult("text", response=text)

@contextmanager
def open_it(configuration):
    yield claim
"""


def events(folder: Path, *words: str) -> list[Event]:
    quiet = ("--toxic-prob", "0", "--error-prob", "1", "--no-charts")
    done = wirefault(folder, environ_in(folder), "demo", *quiet, *words)
    assert done.returncode == 0, done.stderr
    return list(
        read_history(folder / ".wirefault" / "logs", latest_run(folder / ".wirefault" / "logs")).events()
    )


def test_lab_agent_tries_are_trusted(tmp_path: Path) -> None:
    words = ("--prompt", "What is the weather in Paris?", "--tool-limit", "3")
    history = events(tmp_path, *words)
    tries = [each for each in history if isinstance(each, Exchange) and not each.of_model]
    assert {each.identity for each in history if isinstance(each, Exchange)} == {"baggage"}
    assert {each.try_ for each in tries} == {1, 2, 3}


def test_foreign_agent_claims_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLAIMING)
    prompts = [{"id": name, "prompt": name} for name in ("first", "second")]
    (tmp_path / "prompts.json").write_text(json.dumps(prompts))
    history = events(tmp_path, "--subject", "mine:open_it", "--prompts", "prompts.json")
    for ended in (each for each in history if isinstance(each, AttemptEnded)):
        answer = json.loads(ended.response)
        assert answer["keys"] == [] and 200 not in answer["statuses"]
    exchanges = [each for each in history if isinstance(each, Exchange)]
    claims = [(each.episode, each.attempt, each.call, each.try_) for each in exchanges]
    assert claims == [(name, 1, call, 1) for name in ("first", "second") for call in range(1, 6)]
    assert not any(each.forwarded for each in exchanges)
