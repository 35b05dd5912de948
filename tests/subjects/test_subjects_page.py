"""docs/subjects.md: each kind of subject, as the page has it, asks the page's shop and answers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import which

import pytest

from tests.subjects.wired import Wired
from tests.support import ROOT, free_port
from tests.upstream import Upstream, requests_of
from wirefault.core.plugins import load_function
from wirefault.subjects.subject import SubjectResult

pytestmark = pytest.mark.slow

PORT = "8099"  # of the page's service; another lab may have it, so the test takes a free one
PAGE = (ROOT / "docs" / "subjects.md").read_text(encoding="utf-8")


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    def sell(connection: object) -> None:
        for _ in requests_of(connection):  # type: ignore[arg-type]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n4.5")  # type: ignore[attr-defined]

    shop = Upstream(sell)
    try:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # its ``python`` has Flask
        wired = Wired(tmp_path, {**os.environ, "PATH": path})
        wired.links = section("Subjects", "yaml")
        wired.proxies = {"shop": shop.address}
        yield wired
    finally:
        shop.close()


def section(title: str, language: str) -> str:
    [text] = re.findall(rf"^#+ {title}\n.*?```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text).replace(PORT, str(server_port()))


@cache
def server_port() -> int:
    return free_port()


def ask(wired: Wired, kind: str) -> SubjectResult:
    with wired.opened(wired.links + section(kind, "yaml")) as subject:
        return subject("apples", wired.context())


@pytest.mark.skipif(not which("curl"), reason="no curl here")
def test_command_behind_tap(wired: Wired) -> None:
    wired.file("agent.sh", section("command", "sh"))
    assert ask(wired, "command").response == "The price of apples is 4.5."


def test_service_and_running_agent(wired: Wired) -> None:
    wired.environ["AGENT_TOKEN"] = "123"
    wired.file("app.py", section("service", "python"))
    with wired.opened(wired.links + section("service", "yaml")) as subject:
        for answered in (subject("apples", wired.context()), ask(wired, "http")):
            assert answered.response == "The price of apples is 4.5."


def test_python_subject_behind_tap(wired: Wired) -> None:
    wired.file("my_agent.py", section("python", "python"))
    result = ask(wired, "python")
    assert result.report and result.report.values == [{"value": 4.5, "unit": None}]


def test_documented_buyer_stops_at_new_price(tmp_path: Path) -> None:
    (tmp_path / "buyer.py").write_text(section("Conversations", "python"), encoding="utf-8")
    next_turn = load_function(f"{tmp_path}/buyer.py:next_turn")
    assert next_turn([{"role": "assistant", "content": "The price is 4.5."}])
    assert next_turn([{"role": "assistant", "content": "The price is 4."}]) is None
