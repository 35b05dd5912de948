"""Several lanes of one lab, each with its own run at the same time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import requests

from tests.e2e.lab import SETTINGS, Silence, in_folder
from tests.shared_imports import shared_imports
from tests.support import PATIENCE_S, replace
from wirefault.core.identity import new_run_id
from wirefault.history.events import Exchange
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.run import Runner
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, SubjectResult, as_subject
from wirefault.wiring.prompts import Prompt, Prompts

pytestmark = pytest.mark.slow  # it starts a lab


def test_two_lanes_run_at_once_with_separate_faults(tmp_path: Path) -> None:
    configuration = in_folder(load_configuration(os.environ), tmp_path)
    together = Barrier(2)

    def ask(prompt: str, context: AttemptContext) -> SubjectResult:
        together.wait(PATIENCE_S)  # both attempts are armed, or this fails
        url = context.topology.proxies["search"].url + "/serp?q=x"
        with requests.Session() as session:
            session.trust_env = False
            status = session.get(
                url, headers=context.identity.headers("search"), timeout=PATIENCE_S
            ).status_code
        return SubjectResult("text", response=str(status))

    def run(lane: int, error_prob: float) -> list[Any]:
        settings = Settings(**{**SETTINGS, "error_prob": error_prob})
        its_own = replace(configuration, topology=lab.lanes[lane], settings=settings)
        runner = Runner(f"{new_run_id()}-{lane}", its_own, as_subject(ask), Silence())
        try:
            record = runner.run(Prompts([Prompt("e1", "ask")]))
        finally:
            runner.close()
        assert record.completed, record.reason
        return [event for event in record.events if isinstance(event, Exchange)]

    with (
        shared_imports(),
        Lab(configuration, Choice("embedded"), lanes=2) as lab,
        ThreadPoolExecutor() as pool,
    ):
        quiet, struck = pool.map(run, (0, 1), (0.0, 1.0))
    assert [exchange.status for exchange in quiet] == [200] and not quiet[0].faults
    assert [bool(exchange.faults) for exchange in struck] == [True]
