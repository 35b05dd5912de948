"""``wirefault lab serve`` through the real wire: its API, its sessions, and a server that is killed."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import requests

from tests.conversation.served import PATIENCE_S, Served
from tests.support import until
from wirefault.conversation.chat import MESSAGES_A_MINUTE
from wirefault.conversation.serving import encoding_note, log_level, own_names
from wirefault.conversation.store import CHECKPOINT_S, FAILURES_S, RATE_S, STATE_S, Store
from wirefault.conversation.worker import Worker
from wirefault.core.api_server import ApiError
from wirefault.core.errors import InputError

pytestmark = pytest.mark.slow
PARIS, SEND = (
    "What is the temperature in Paris right now?",
    'Send Bob a message saying "The report is ready".',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("serve"))
    yield served
    served.stop()


def test_session_remembers_and_acts_in_one_world(server: Served) -> None:
    first, second = server.chat("talk", PARIS), server.chat("talk", "And in Fahrenheit?")
    assert (first["status"], first["response"]) == ("success", first["natural_response"])
    assert "47.12" in second["response"] and second["metadata"]["context_preserved"]
    server.chat("talk", SEND)
    assert server.messages("talk") == 1


# mode, status, whether the model was asked
ENDS = {
    "hallucination": ("failure", True),
    "incorrect_reasoning": ("failure", True),
    "off_topic": ("failure", True),
    "infinite_loop": ("error", True),
    "refusing_progress": ("failure", True),
    "service_unavailable": ("error", False),
    "auth_error": ("error", False),
    "rate_limiting": ("error", False),
    "token_limit": ("error", True),
    "memory_exhaustion": ("error", True),
    "stuck_pattern": ("failure", True),
}


@pytest.mark.parametrize("mode", ENDS)
def test_forced_mode_shows_both_sides(server: Served, mode: str) -> None:
    tried = server.call("POST", f"/api/v1/test-failure/{mode}").json()
    status, is_asked = ENDS[mode]
    reply = tried["response"]
    assert (reply["status"], reply["failure_mode"], reply["failure_injection_applied"]) == (
        status,
        mode,
        True,
    )
    assert (reply["natural_response"] is not None) == is_asked
    assert reply["response"] != reply["natural_response"]


def test_recovery_answers_although_the_service_is_unavailable(server: Served) -> None:
    recovery = "fallback(model=scripted-diligent)"
    reply = server.chat("recovers", PARIS, failure_mode="service_unavailable", recovery=recovery)
    assert (reply["status"], reply["metadata"]["recovered"]) == ("success", True)
    history = server.call("GET", "/api/v1/sessions/recovers/history").json()
    assert set(history["current_state"]["checkpoints"]) == {"pre_request", "pre_failure", "post_recovery"}
    assert history["current_state"]["recovery_count"] == 1
    [turn] = history["interactions"]
    assert [(each["recovery_strategy"], each["success"]) for each in turn["recoveries"]] == [
        ("fallback", True)
    ]


def test_exhausted_memory_is_named_and_survived(server: Served) -> None:
    """The second turn and the third are in the process that ran out of memory."""
    server.chat("memory", PARIS)
    failed = server.chat("memory", "And in Fahrenheit?", failure_mode="memory_exhaustion")
    assert failed["metadata"]["error"].startswith(
        "MemoryError: its process ran out of memory, which was limited"
    )
    assert (failed["natural_status"], failed["status"], failed["response"]) == ("success", "error", "")
    mended = server.chat(
        "memory", "And in Fahrenheit?", failure_mode="memory_exhaustion", recovery="retry(model=4, base=0.05)"
    )
    assert (mended["status"], mended["metadata"]["recovered"]) == ("success", True)
    assert "47.12" in mended["response"]


def test_killed_agent_continues_from_its_checkpoint(server: Served) -> None:
    parameters = {"at": "after_reply"}
    config = {"probability": 0, "links": "message", "parameters": parameters}
    dies = {"name": "dies", "failure_type": "kill_subject", "config": config}
    assert server.call("POST", "/api/v1/failure-scenarios", dies).status_code == 200
    server.chat("mortal", PARIS)
    reply = server.chat("mortal", SEND, failure_mode="dies", recovery="checkpoint")
    assert (reply["status"], reply["failure_injection_applied"]) == ("success", True)
    recoveries = reply["metadata"]["recoveries"]
    assert [(each["strategy"], each["success"]) for each in recoveries] == [("checkpoint", True)]
    assert server.messages("mortal") == 1
    assert "47.12" in server.chat("mortal", "And in Fahrenheit?")["response"]


def test_scenario_takes_effect_until_it_is_disabled(server: Served) -> None:
    scenario = {
        "name": "weather-down",
        "failure_type": "unavailable",
        "config": {"probability": 1, "links": "weather"},
    }
    assert server.call("POST", "/api/v1/failure-scenarios", scenario).status_code == 200
    assert "weather-down" in server.call("GET", "/api/v1/system/status").json()["active_failure_modes"]
    assert server.chat("scenario", PARIS)["failure_mode"] == "weather-down"
    server.call("POST", "/api/v1/failure-scenarios", {**scenario, "enabled": False})
    assert server.chat("scenario", PARIS)["failure_mode"] is None


def test_timeouts_of_three_requests_are_drawn(server: Served) -> None:
    parameters = {"at_least": 0.1, "limit": 0.4}
    config = {"probability": 0, "parameters": parameters}
    scenario = {"name": "late", "failure_type": "api_timeout", "config": config}
    assert server.call("POST", "/api/v1/failure-scenarios", scenario).status_code == 200
    reply = server.chat("late", PARIS, failure_mode="late")
    assert (reply["status"], reply["natural_response"]) == ("timeout", None)
    waits = [each["ms"] for each in reply["metadata"]["time_line"]]
    assert len(set(waits)) == 3 and min(waits) >= 100


FIELDS = {
    name: set(text.split())
    for name, text in {
        "chat": "session_id response status natural_status failure_mode failure_injection_applied"
        " natural_response processing_time_ms token_count model_used metadata interaction_id",
        "turn": "id timestamp request response status natural_status natural_response failure_mode"
        " failure_injection_applied processing_time_ms token_count recoveries",
        "recovery": "recovery_strategy attempt_number success recovery_data notes recovery_time_ms",
        "state": "conversation_history context failure_count recovery_count checkpoints",
        "analytics": "time_range_hours failure_counts status_distribution average_processing_time_ms"
        " total_interactions",
        "scenario": "name description failure_type config enabled created_at updated_at",
    }.items()
}


def test_replies_have_every_field_of_the_list(server: Served) -> None:
    body = {"context": {"case": 7}, "max_tokens": 500, "model": "scripted-diligent"}
    chat = server.chat("fields", PARIS, failure_mode="service_unavailable", recovery="retry(model=4)", **body)
    assert set(chat) == FIELDS["chat"]
    assert {"conversation_length", "context_preserved", "injected_failure", "failure_probability"} <= set(
        chat["metadata"]
    )
    history = server.call("GET", "/api/v1/sessions/fields/history").json()
    [turn] = history["interactions"]
    assert set(turn) == FIELDS["turn"] and set(history["current_state"]) == FIELDS["state"]
    assert history["current_state"]["context"] == {"case": 7}
    assert FIELDS["recovery"] <= set(turn["recoveries"][0])
    assert set(server.call("GET", "/api/v1/analytics/failures").json()) == FIELDS["analytics"]
    status = server.call("GET", "/api/v1/system/status").json()
    assert set(status) == {"status", "components", "active_failure_modes", "version"}
    assert set(status["components"]) == {"redis", "database", "agent_service"}
    off = {"name": "off", "failure_type": "delay", "config": {"probability": 0}, "enabled": False}
    assert FIELDS["scenario"] <= set(server.call("POST", "/api/v1/failure-scenarios", off).json())
    tried = server.call("POST", "/api/v1/test-failure/off_topic?test_message=What+is+2+%2B+3%3F").json()
    assert set(tried) == {"test_session_id", "failure_mode", "test_message", "response"}


def test_reset_begins_another_conversation_in_another_world(server: Served) -> None:
    server.chat("anew", SEND)
    assert server.call("POST", "/api/v1/chat/reset/anew").status_code == 200
    reply = server.chat("anew", SEND)
    assert (reply["metadata"]["context_preserved"], server.messages("anew")) == (False, 1)
    assert server.messages("anew.1") == 1


def test_failed_turn_is_forgotten(server: Served) -> None:
    server.chat("after", PARIS)
    assert server.chat("after", "And in Fahrenheit?", failure_mode="auth_error")["status"] == "error"
    assert "47.12" in server.chat("after", "And in Fahrenheit?")["response"]


def test_analytics_count_what_happened(server: Served) -> None:
    before = server.call("GET", "/api/v1/analytics/failures?hours=1").json()
    server.chat("counted", PARIS, failure_mode="off_topic")
    after = server.call("GET", "/api/v1/analytics/failures?hours=1").json()
    assert after["total_interactions"] == before["total_interactions"] + 1
    assert after["failure_counts"]["off_topic"] == before["failure_counts"].get("off_topic", 0) + 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/v1/chat", {"session_id": "s", "message": "hi", "failure_mode": "nonsense"}, 422),
        ("POST", "/api/v1/chat", {"session_id": "../s", "message": "hi"}, 422),
        ("POST", "/api/v1/chat", {"session_id": "s", "message": "hi", "recovery": "retri"}, 422),
        ("POST", "/api/v1/chat", [], 422),
        ("GET", "/api/v1/sessions/nobody/history", None, 404),
        ("GET", "/api/v1/analytics/failures?hours=-1", None, 422),
        ("POST", "/api/v1/test-failure/nonsense", None, 422),
    ],
)
def test_bad_request_is_refused_in_one_line(
    server: Served, method: str, path: str, body: Any, status: int
) -> None:
    reply = server.call(method, path, body)
    assert reply.status_code == status and "\n" not in reply.json()["error"]["message"]


def test_token_is_needed_except_for_health_and_docs(server: Served) -> None:
    url = f"http://127.0.0.1:{server.port}"
    assert requests.get(f"{url}/api/v1/system/status", timeout=PATIENCE_S).status_code == 401
    assert requests.get(f"{url}/health", timeout=PATIENCE_S).json()["status"] == "ok"
    page = requests.get(f"{url}/docs", timeout=PATIENCE_S).text
    assert "/api/v1/chat" in page and "<script" not in page
    for path in ("/health", "/docs", "/openapi.json"):
        foreign = requests.get(url + path, headers={"Host": "evil.example"}, timeout=PATIENCE_S)
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "foreign_host")
    assert (
        "/api/v1/failure-scenarios" in requests.get(f"{url}/openapi.json", timeout=PATIENCE_S).json()["paths"]
    )


def test_too_many_messages_of_a_minute_are_refused(server: Served) -> None:
    store = Store(f"sqlite:///{server.state / 'conversations.db'}", time.time)
    for minute in (0, 1):  # also if the next one begins
        key = f"rate_limit:hasty:{int(time.time() / RATE_S) + minute}"
        store.values.put(key, MESSAGES_A_MINUTE, 2 * RATE_S)
    store.close()
    refused = server.call("POST", "/api/v1/chat", {"session_id": "hasty", "message": PARIS})
    assert refused.status_code == 429 and str(MESSAGES_A_MINUTE) in refused.text
    assert server.chat("patient", PARIS)["status"] == "success"


COLUMNS = {
    "agent_interactions": "session_id timestamp request_data response_data status natural_status failure_mode"
    " failure_injection_applied natural_response processing_time_ms token_count model_used",
    "failure_scenarios": "name description failure_type config enabled created_at updated_at",
    "recovery_attempts": "recovery_strategy attempt_number success recovery_data notes recovery_time_ms",
    "agent_state_snapshots": "session_id snapshot_type state_data",
    "system_metrics": "metric_type metric_value threshold_value exceeded_threshold metric_metadata",
    "failure_analysis": "session_id failure_mode failures average_processing_time_ms recovered",
    "system_health": "metric_type average violations",
}
LIFETIMES = {
    **{"state": STATE_S, "failure_count": FAILURES_S, "rate_limit": RATE_S},
    **dict.fromkeys(("pre_request", "pre_failure", "post_recovery"), CHECKPOINT_S),
}


def test_tables_and_views_are_filled_by_turns(server: Served) -> None:
    off = {"name": "idle", "failure_type": "delay", "config": {"probability": 0}, "enabled": False}
    server.call("POST", "/api/v1/failure-scenarios", off)
    failed = server.chat("viewed", PARIS, failure_mode="hallucination")
    recovery = "fallback(model=scripted-diligent)"
    server.chat("viewed", PARIS, failure_mode="service_unavailable", recovery=recovery)
    with closing(sqlite3.connect(f"file:{server.state / 'conversations.db'}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        rows = {
            name: [dict(row) for row in database.execute(f"SELECT {', '.join(columns.split())} FROM {name}")]
            for name, columns in COLUMNS.items()
        }
        values = database.execute("SELECT key, expires_at FROM session_values WHERE key LIKE '%:viewed%'")
        left = {key.partition(":")[0]: expires_at - time.time() for key, expires_at in values}
    assert all(rows.values())
    turn = next(row for row in rows["agent_interactions"] if row["session_id"] == "viewed")
    assert (turn["natural_response"], turn["model_used"]) == (failed["natural_response"], "scripted-diligent")
    assert json.loads(turn["response_data"])["response"] == failed["response"]
    kinds = {row["snapshot_type"] for row in rows["agent_state_snapshots"] if row["session_id"] == "viewed"}
    assert kinds == {"pre_request", "pre_failure", "post_recovery"}
    analysis = {
        row["failure_mode"]: (row["failures"], row["recovered"])
        for row in rows["failure_analysis"]
        if row["session_id"] == "viewed"
    }
    assert analysis == {"hallucination": (1, 0), "service_unavailable": (1, 1)}
    assert rows["system_health"][0]["average"] > 0
    assert left == {name: pytest.approx(seconds, abs=PATIENCE_S) for name, seconds in LIFETIMES.items()}


def test_messages_at_once_of_a_session_are_queued(server: Served) -> None:
    def ask(number: int) -> dict[str, Any]:
        return server.chat("crowd", f"What is {number} + 100?")

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(ask, range(6)))
    assert [str(100 + number) in reply["response"] for number, reply in enumerate(replies)] == [True] * 6
    assert sorted(reply["metadata"]["turn"] for reply in replies) == [1, 2, 3, 4, 5, 6]
    history = server.call("GET", "/api/v1/sessions/crowd/history").json()
    in_order = sorted(replies, key=lambda reply: reply["metadata"]["turn"])
    assert [turn["response"]["response"] for turn in history["interactions"]] == [
        reply["response"] for reply in in_order
    ]
    spoken = [each["content"] for each in history["current_state"]["conversation_history"]]
    assert spoken[1::2] == [reply["response"] for reply in in_order]


def test_requests_that_only_read_are_answered_during_a_turn(server: Served) -> None:
    config = {"probability": 0, "parameters": {"ms": 4000}}
    late = {"name": "lagging", "failure_type": "delay", "config": config}
    server.call("POST", "/api/v1/failure-scenarios", late)
    asking = Thread(target=server.chat, args=("lags", PARIS), kwargs={"failure_mode": "lagging"})
    asking.start()
    until(lambda: server.call("GET", "/api/v1/sessions/lags/history").status_code == 200, patience=PATIENCE_S)
    history = server.call("GET", "/api/v1/sessions/lags/history").json()
    assert asking.is_alive() and history["interactions"] == []
    asking.join()


def test_full_queue_is_refused() -> None:
    worker = Worker(1)
    worker.do(lambda run, memories: None)
    with pytest.raises(ApiError, match="1 turns wait already"):
        worker.do(lambda run, memories: None)


class Theirs(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that says hello."""

    requests: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append((self.headers["authorization"], body))
        message = {"role": "assistant", "content": "Hello."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "theirs-1", "usage": usage}
        data = json.dumps({**reply, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


def test_variables_name_model_and_mode(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Theirs) as theirs:
        Thread(target=theirs.serve_forever, daemon=True).start()
        variables = {
            **{"AI_BASE_URL": f"http://127.0.0.1:{theirs.server_port}/v1", "AI_MODEL": "theirs"},
            **{"AI_API_KEY": "their-key-12345", "FAILURE_MODE": "auth_error", "LOG_LEVEL": "DEBUG"},
        }
        served = Served(tmp_path, **variables)
        assert served.chat("theirs", "Hello")["failure_mode"] == "auth_error"
        modes = served.call("GET", "/api/v1/system/status").json()["active_failure_modes"]
        reply = served.chat("theirs", "Hello", failure_mode="none", max_tokens=77)
        served.stop()
        theirs.shutdown()
    assert modes == ["auth_error"] and reply["failure_mode"] is None
    assert (reply["token_count"], reply["model_used"]) == (42, "theirs-1")
    [(key, body)] = Theirs.requests
    assert (key, body["model"]) == ("Bearer their-key-12345", "theirs")
    assert 77 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    log = (tmp_path / "serve.txt").read_text()
    assert " DEBUG " in log and "their-key-12345" not in log and served.token not in log


def test_variables_of_other_conversation_labs_are_known() -> None:
    environ = {"AI_BASE_URL": "http://127.0.0.1:9/v1", "AI_MODEL": "theirs", "GROQ_MODEL": "ours"}
    assert own_names(environ) == {"MODEL_BASE_URL": "http://127.0.0.1:9/v1"}


def test_level_of_the_log_is_that_of_server_and_agent(server: Served) -> None:
    server.chat("logged", PARIS, failure_mode="auth_error")
    log = (server.folder / "serve.txt").read_text()
    assert re.search(r"WARNING wirefault\.conversation: session logged, turn 1: error in \d+ ms", log)
    assert re.search(r"INFO httpx: HTTP Request: POST \S+/chat/completions .*401", log)
    assert "AI_ENCODING=p50k_base changes nothing: token_count is the usage" in log
    assert server.token not in log and "DEBUG" not in log


def test_unknown_level_and_encoding_are_refused() -> None:
    assert (log_level({}), log_level({"LOG_LEVEL": "debug"}), encoding_note({})) == ("WARNING", "DEBUG", "")
    with pytest.raises(InputError, match=r"LOG_LEVEL: unknown level 'WARN'; did you mean 'WARNING'\?"):
        log_level({"LOG_LEVEL": "warn"})
    with pytest.raises(InputError, match="AI_ENCODING: unknown encoding 'utf-8'; valid: cl100k_base"):
        encoding_note({"AI_ENCODING": "utf-8"})


def test_second_server_in_the_folder_is_refused(server: Served) -> None:
    command = [sys.executable, "-m", "wirefault", "lab", "serve", "--port", "0"]
    second = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert second.returncode and "another `wirefault lab serve` uses" in second.stderr


def test_killed_server_continues_its_turn_and_repeats_no_write(tmp_path: Path) -> None:
    served = Served(tmp_path)
    config = {"probability": 0, "parameters": {"ms": 3000}}
    slow = {"name": "slow", "failure_type": "delay", "config": config}
    served.call("POST", "/api/v1/failure-scenarios", slow)

    def ask() -> None:
        with pytest.raises(requests.ConnectionError):
            served.chat("killed", SEND, failure_mode="slow")

    asking = Thread(target=ask)
    asking.start()
    until(lambda: served.messages("killed") == 1, "the message", patience=PATIENCE_S, interval=0.05)
    served.kill()
    asking.join()
    served.start()
    reply = served.chat("killed", SEND)
    assert reply["metadata"]["resumed"] and reply["status"] == "success"
    assert served.messages("killed") == 1
    served.stop()
