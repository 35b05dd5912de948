"""The console shows no control character in any line or table."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from wirefault.report.terminal import plain_console

ESCAPES = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202e"


def test_console_strips_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(f"head{ESCAPES}")
    table.add_row(f"cell{ESCAPES}")
    for renderable in (f"text{ESCAPES}", Text(f"styled{ESCAPES}", style="bold"), table):
        plain_console().print(renderable)
    output = capsys.readouterr().out
    assert all(word in output for word in ("text", "styled", "head", "cell"))
    assert all(line.isprintable() for line in output.splitlines())
