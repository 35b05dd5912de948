"""Where an attempt's failures lie, by the failures that it met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    ended,
    episode,
    exchange,
    model_call,
    run_started,
    started,
    tried,
)
from tests.support import replace
from wirefault.core.redaction import Redaction
from wirefault.history.events import TLS_ON_PLAIN, ConnectionEnded, HowEnded, InterceptionFailed, ToolTry
from wirefault.judging.trace import episode_trace
from wirefault.runner.record import EpisodeJudge, Recorder, attempt_error_class
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

LATE = tried(error="read_timeout", ms=1000)
REFUSED = tried(error="connection_refused", call=2, start=104)
BROKEN = tried(error="http_503", status=503, call=3, start=105)
GOOD = tried(call=4, start=106, fingerprint="f2")
LEFT = exchange("shop", status=None, complete=(True, False), client_left=True)
FAILED, DONE = ended("failed"), ended("done")
CRASHED = replace(ended(ended_by="exception"), error_type="KeyError", error_class="agent")
PROSE = ended(ended_by="text", response="I could not reach the shop.")


NO_TLS = exchange("shop", status=400, error=TLS_ON_PLAIN, complete=(False, True), forwarded=False)
DOWN_SERVER = exchange("shop", status=502, unavailable=True, forwarded=False)
NO_INTERCEPTION = InterceptionFailed(103.0, EPISODE, 1, "shop", "shop.example", "authority_refused")
DOWN = armed(PlannedToxic("shop", "down", "upstream", {}))


def connection(up: int, received: int, how: HowEnded, link: str = "shop") -> ConnectionEnded:
    where = ("proxy", how, False, "shop.example", 443, "proxy")
    return ConnectionEnded(104.0, link, EPISODE, 1, 103.0, 900.0, None, up, received, *where)


UNHEARD = connection(90, 0, "fin")
OPAQUE = replace(started(), recorded=False)


@pytest.mark.parametrize("end", [FAILED, replace(ended("unsure"), error_class="none"), PROSE, CRASHED])
@pytest.mark.parametrize(
    "events",
    [
        pytest.param([REFUSED, replace(REFUSED, try_=2)], id="refused: the agent's record"),
        pytest.param([connection(0, 0, "refused")], id="refused: the ingress's record"),
        pytest.param([DOWN_SERVER], id="refused: by the server behind the gateway"),
        pytest.param([NO_INTERCEPTION], id="TLS: the client does not trust the lab"),
        pytest.param([NO_TLS], id="TLS: on a link of plain HTTP"),
        pytest.param([connection(300, 0, "rst")], id="TLS: a connection that ends in the handshake"),
        pytest.param([LATE, replace(LATE, try_=2)], id="timeout: the agent's record"),
        pytest.param([LEFT], id="timeout: the gateway's record"),
        pytest.param([UNHEARD], id="timeout: the ingress's record"),
    ],
)
def test_all_tries_fail_on_network(events: list[Any], end: Any) -> None:
    model = [] if isinstance(events[0], ToolTry) else [exchange("model", dialect="openai_chat")]
    assert class_of(*model, *events, end) == "network"


def test_request_stopped_by_toxic_is_network_failure_if_reported() -> None:
    assert class_of(OPAQUE, DOWN, FAILED) == "network"
    assert class_of(OPAQUE, DOWN, ended("done")) == "none"
    assert class_of(DOWN, FAILED) == "none"  # it keeps a record, and made no request


@pytest.mark.parametrize(
    "events",
    [
        [exchange("shop"), connection(0, 0, "refused")],  # one got through
        [connection(0, 0, "open")],  # opened in advance, and never used
        [exchange("shop", status=502)],  # the server's own
    ],
)
def test_other_failures_are_not_network_failures(events: list[Any]) -> None:
    assert class_of(*events, FAILED) != "network"


def class_of(*events: Any) -> str:
    *others, end = events
    return attempt_error_class(episode_trace(episode(*others, end)), end)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([LATE, FAILED], "network"),
        ([LATE, REFUSED, FAILED], "network"),
        ([LATE, CRASHED], "network"),
        ([LATE, PROSE], "network"),
        ([LEFT, PROSE], "network"),
        ([LEFT, CRASHED], "network"),
        ([model_call(), LATE, FAILED], "network"),  # the model answered, no tool did
        ([model_call(error="ReadTimeout", status=None), FAILED], "network"),
        # some tries succeeded
        ([LATE, GOOD, FAILED], "network"),  # and one call never did
        ([LATE, GOOD, CRASHED], "agent"),
        ([LATE, replace(GOOD, fingerprint="f1"), FAILED], "none"),
        ([LATE, GOOD, DONE], "none"),
        ([BROKEN, FAILED], "server"),
        ([LATE, BROKEN, FAILED], "server"),
        ([LATE, BROKEN, CRASHED], "agent"),
        ([FAILED], "none"),
        ([CRASHED], "agent"),
        ([LATE, replace(CRASHED, error_class="none")], "none"),  # the lab failed
    ],
)
def test_class_by_failures(events: list[Any], expected: str) -> None:
    assert class_of(*events) == expected


def test_run_names_its_links_of_models(tmp_path: Path) -> None:
    brain = Link("brain", "https://brain.example", "openai_chat")
    recorder = Recorder("run-1", 0, tmp_path, Redaction({}))
    begin = replace(run_started(), links=[brain])
    answered = exchange("brain", dialect="openai_chat")
    for event in (begin, OPAQUE, armed(), answered, connection(0, 0, "refused", "brain"), FAILED):
        recorder.emit(event)
    EpisodeJudge(recorder, tmp_path / "effects.db", print).judge(EPISODE)
    recorder.close()
    assert '"error_class": "none"' in (tmp_path / "agent.log").read_text()
