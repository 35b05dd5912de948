"""The modes that the server draws, against the printed rates; ``bench.conversation_rates`` sends more."""

from pathlib import Path

import pytest

from bench.conversation_rates import QUICK, observe
from bench.conversations import server
from wirefault.conversation.modes import Odds, Situation

pytestmark = pytest.mark.slow
MESSAGES, SEED = 16, 3


def test_server_draws_each_message_as_the_printed_rates_say(tmp_path: Path) -> None:
    """``test_modes`` shows for 20,000 draws that they have these rates."""
    with server(tmp_path, {**QUICK, "SEED": str(SEED), "FAILURE_RATE_MULTIPLIER": "1.5"}) as call:
        drawn = observe(call, MESSAGES).drawn
        again = observe(call, MESSAGES).drawn
        late = {"session_id": "late", "message": "What is 2 + 3?", "failure_mode": "api_timeout"}
        assert call("POST", "/api/v1/chat", late).json()["status"] == "timeout"
        history = [call("GET", f"/api/v1/sessions/rate-{n}/history", None).json() for n in range(MESSAGES)]
    expected = [Odds(1.5).draw(SEED, f"rate-{number}", 1, Situation(1)) for number in range(MESSAGES)]
    turns = [each["interactions"][0] for each in history]
    assert [turn["failure_mode"] for turn in turns] == expected
    printed = Odds(1.5).rates(Situation(1))
    assert [turn["response"]["metadata"].get("failure_probability") for turn in turns] == [
        printed.get(mode) for mode in expected
    ]
    # each session's second message follows within 30 s of its failure, or draws anew
    assert drawn.total() == again.total() == MESSAGES and drawn[""] < again[""]
