"""Files below ``state/`` and ``logs/`` that are planted while `wirefault lab serve` runs."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.cli.test_planted_files import HUGE, OUTSIDE, PLANTED
from tests.conversation.served import Served
from tests.support import share

pytestmark = pytest.mark.slow

QUESTION = "What is the temperature in Paris right now?"
JOURNALS = ("state.db", "effects.db", "conversations.db", "conversation-checkpoints.db")
Plant = Callable[[Path, Path], None]


class Asked(Served):
    """A server whose token is read once, and what it and its processes print."""

    token = ""

    def ask(self, message: str) -> tuple[int, str]:
        body = {"session_id": secrets.token_hex(4), "message": message}
        try:
            reply = self.call("POST", "/api/v1/chat", body)
        except requests.Timeout:
            return 0, "no answer"
        return reply.status_code, reply.text

    def printed(self) -> str:
        logs = [self.folder / "serve.txt", *(self.state.parent / "logs" / "lab").rglob("*.log")]
        return "".join(log.read_text() for log in logs if log.is_file() and log.stat().st_size < HUGE)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Asked]:
    server = Asked(tmp_path)
    server.token = (server.state / "conversation.token").read_text()
    server.chat("before", QUESTION)
    yield server
    if server.process.poll() is None:
        server.kill()


def files_of(server: Asked) -> list[Path]:
    """Those that the processes of the lab have opened, and the journals of its databases."""
    base = server.state.parent
    opened = sorted(path for path in base.rglob("*") if path.is_file())
    return list(dict.fromkeys([*opened, *(server.state / f"{name}-journal" for name in JOURNALS)]))


def test_message_is_answered_while_a_planted_file_is_there(served: Asked) -> None:
    problems = []
    victim = served.folder / "victim" / "file"
    victim.parent.mkdir()
    victim.write_text(OUTSIDE)
    for number, path in enumerate(files_of(served)):
        for which, (name, plant) in enumerate(PLANTED.items()):
            if share(number + which):
                problems += [f"{name} at {path.name}: {each}" for each in trial(served, path, plant, victim)]
    assert not problems, "\n".join(problems)
    for path in files_of(served):  # and it ends with them there
        path.unlink(missing_ok=True)
        PLANTED["pipe"](path, victim)
    served.stop()
    assert "Traceback" not in served.printed()


def trial(served: Asked, path: Path, plant: Plant, victim: Path) -> Iterator[str]:
    aside = served.folder / "aside"
    was_there = path.exists()
    if was_there:
        path.rename(aside)
    plant(path, victim)
    status, text = served.ask(QUESTION)
    if was_there:
        remove(path)
        aside.rename(path)
    elif os.path.lexists(path):
        remove(path)
    if status not in (200, 503) or (status == 503 and path.name not in text):
        yield f"{status} {text}"
    if "Traceback" in served.printed():
        yield f"a traceback: {served.printed()[-600:]}"
    files = [file.read_text() for file in victim.parent.iterdir()]
    if OUTSIDE in text + served.printed() or files != [OUTSIDE]:
        yield "a file outside was used"


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
