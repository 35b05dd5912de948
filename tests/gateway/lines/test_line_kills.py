"""A kill of the subject at a line: other lines of the pipe wait, and are lost with their process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.lab import Lab
from tests.gateway.lines.lines_lab import Ends, answer, call, faults, read, stdio_lab
from tests.support import until
from wirefault.history.events import Exchange
from wirefault.state.state import State
from wirefault.state.tables import KillOrder


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with stdio_lab(tmp_path) as lab:
        yield lab


def order(state: State, lab: Lab, wanted: str) -> KillOrder:
    """Return the attempt's kill once it has that state."""

    def last() -> KillOrder | None:
        kill = state.kills.last(lab.run_id, "e1", 1)
        return kill if kill is not None and kill.state == wanted else None

    kill = until(last, f"a kill that is {wanted}")
    assert kill is not None
    return kill


def test_other_lines_wait_for_kill_and_are_dropped(lab: Lab) -> None:
    ends = Ends(lab)
    lab.begin(faults=faults({"fault": "kill_subject"}))
    ends.client.sendall(call(1))
    assert read(ends.server) == call(1)
    ends.server.sendall(answer(1))
    with State(lab.folder / "state.db") as state:
        kill = order(state, lab, "wanted")
        behind = call(2) + b"no message\n"
        ends.client.sendall(behind)
        ends.end_of_client(len(call(1) + behind))
        assert read(ends.server) == b""  # the gateway has all lines, and passes none of them on
        assert state.kills.move(kill, "dead")
        order(state, lab, "closed")
    ends.close()
    lab.settle()
    recorded = [event for event in lab.recorded() if isinstance(event, Exchange)]
    assert [(event.tool, event.error) for event in recorded] == [("add", "the subject was killed here")]
    assert [(fault.kind, fault.injected) for fault in recorded[0].faults] == [("kill_subject", True)]
