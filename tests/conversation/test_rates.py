"""The modes that the server draws, against the printed rates; ``bench.conversation_rates`` sends more."""

from collections import Counter
from pathlib import Path

import pytest

from bench.conversation_rates import QUICK, observe, scripted
from bench.conversations import server
from wirefault.conversation.modes import LOOP, Odds, Situation

MESSAGES, SEED = 16, 3


def test_pause_repetition_and_loops_count_through_the_api(tmp_path: Path) -> None:
    now, kinds = 4_000_000_000.0, Counter[str]()
    with scripted(tmp_path, SEED, lambda: now) as call:
        for session in (f"talk-{number}" for number in range(6)):
            last, failed_at = "", None
            for turn in range(1, 9):
                now += 16
                reply = call(
                    "POST", "/api/v1/chat", {"session_id": session, "message": "What is 2 + 3?"}
                ).json()
                situation = Situation(turn, last, None if failed_at is None else now - failed_at)
                mode, rates = Odds().draw(SEED, session, turn, situation), Odds().rates(situation)
                assert (reply["failure_mode"] or "") == mode
                assert reply["metadata"].get("failure_probability") == rates.get(mode)
                kinds["pause"] += not rates
                kinds["after a failure"] += bool(rates and last)
                kinds["loop"] += mode == LOOP
                if mode:
                    last, failed_at = mode, now
        history = call("GET", "/api/v1/sessions/talk-0/history", None).json()
        analytics = call("GET", "/api/v1/analytics/failures?hours=1", None).json()
    assert len(history["interactions"]) == 8 and analytics["total_interactions"] == 6 * 8
    assert all(kinds[each] for each in ("pause", "after a failure", "loop"))


@pytest.mark.slow
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
