"""Turns a second of ``wirefault lab serve``, with many sessions at once; no turn may be lost or mixed.

``python -m bench.conversations [SESSIONS [SECONDS]]``
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import requests

_PATIENCE_S = 300
_BUSY_S = 0.05


@dataclass(frozen=True)
class Load:
    """Turns that sessions had in so many seconds. ``wrong``: replies or histories of another turn."""

    sessions: int
    seconds: float
    turns: int
    refused: int
    wrong: list[str]

    def __str__(self) -> str:
        rate = self.turns / self.seconds
        return (
            f"{self.sessions} sessions, {self.turns} turns in {self.seconds:.1f} s: {rate:.1f} turns/s, "
            f"{self.refused} refused for the full queue, {len(self.wrong)} lost or mixed"
        )


def load(
    call: Callable[[str, str, Any], requests.Response], sessions: int, seconds: float, turns: int = 10**6
) -> Load:
    """Talk in all sessions at once: sums that only one session asks for.

    ``call``: method, path, body. A session ends after so many ``turns`` or ``seconds``, in whole turns.
    """
    began = time.monotonic()
    refused: list[int] = []

    def talk(number: int) -> list[str]:
        """Return the questions that were answered wrongly, one empty text per turn that was right."""
        session, results, turn = f"load-{number}", [], 0
        while turn < turns and (not turn or time.monotonic() < began + seconds):
            turn += 1
            body = {"session_id": session, "message": f"What is {1000 * turn} + {number}?"}
            while (reply := call("POST", "/api/v1/chat", body)).status_code == 503:
                refused.append(number)
                time.sleep(_BUSY_S)
            answer = reply.json()
            is_right = answer.get("session_id") == session and str(1000 * turn + number) in answer["response"]
            results.append("" if is_right else f"{body['message']} {answer}")
        questions = [f"What is {1000 * each} + {number}?" for each in range(1, turn + 1)]
        history = call("GET", f"/api/v1/sessions/{session}/history", None).json()["interactions"]
        if [each["request"]["message"] for each in history] != questions:
            results.append(f"{session}: its history has other turns")
        return results

    with ThreadPoolExecutor(sessions) as pool:
        results = [each for of_session in pool.map(talk, range(sessions)) for each in of_session]
    elapsed = time.monotonic() - began
    wrong = [each for each in results if each]
    return Load(sessions, elapsed, len(results), len(refused), wrong)


@contextmanager
def server(
    folder: Path, variables: Mapping[str, str]
) -> Iterator[Callable[[str, str, Any], requests.Response]]:
    """Serve in the folder; yield a function that calls it: method, path, body."""
    command = [sys.executable, "-m", "wirefault", "lab", "serve", "--port", "0"]
    with (folder / "serve.txt").open("w") as log:
        environ = {**os.environ, "TOXIC_PROB": "0", "ERROR_PROB": "0", **variables}
        process = Popen(command, cwd=folder, env=environ, stdin=DEVNULL, stdout=log, stderr=log)
    try:
        text = ""
        while "/docs" not in text:
            if process.poll() is not None:
                raise SystemExit(text)
            time.sleep(_BUSY_S)
            text = (folder / "serve.txt").read_text(encoding="utf-8")
        url = text[text.rindex("http://") : text.rindex("/docs")]
        token = (folder / ".wirefault" / "state" / "conversation.token").read_text(encoding="utf-8")
        headers = {"Authorization": f"Bearer {token}"}

        def call(method: str, path: str, body: Any) -> requests.Response:
            return requests.request(method, url + path, json=body, headers=headers, timeout=_PATIENCE_S)

        yield call
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def main(sessions: int = 200, seconds: float = 60.0) -> int:
    """Print the figure; return 1 if a turn was lost or mixed."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder), {}) as call:
        result = load(call, sessions, seconds)
    sys.stdout.write(f"{result}\n" + "".join(f"{each}\n" for each in result.wrong[:5]))
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in sys.argv[1:])))
