"""The message about a lab that is not ready in time."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.typing import ResponseReturnValue

from tests.examples.serving import served
from wirefault.lab import launcher as readiness
from wirefault.lab.launcher import answers, complaint_of, local_session, wait_until
from wirefault.lab.process import LabError

app = Flask(__name__)


@app.get("/ready")
def ready() -> ResponseReturnValue:
    return {"ready": False, "error": "database or disk is full"}, 503


def test_component_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "READY_BOUND_S", 0.0)
    with served(app) as server, local_session() as session:
        url = server.url + "/ready"
        with pytest.raises(LabError, match=r"not ready after 0 s: .*/ready says: database or disk is full$"):
            wait_until(
                lambda: answers(session, url) or None,
                lambda: None,
                lambda: False,
                lambda: complaint_of(session, url),
            )
        assert complaint_of(session, server.url + "/no-json") == f"no valid answer from {server.url}/no-json"
    with local_session() as session:
        assert complaint_of(session, url) == f"no answer at {url}"


def test_silent_lab_is_reported_as_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "READY_BOUND_S", 0.0)
    with pytest.raises(LabError, match=r"not ready after 0 s$"):
        wait_until(lambda: None, lambda: None, lambda: False)
