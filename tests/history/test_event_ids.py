"""An event's id names the file and the line at which it lies."""

from __future__ import annotations

from tests.judging.oracle.histories import armed, exchange, run_started, started
from wirefault.history.event_ids import with_ids
from wirefault.history.events import ConnectionEnded, ToxicsChanged
from wirefault.history.reader import parse_line, read_history
from wirefault.history.writer import Writer, history_file

FILES = {
    "agent": [run_started(), started(), armed()],
    "gateway": [exchange(call=1), exchange(call=2)],
    "manager": [ToxicsChanged(102.0, "001", 1, "armed", [])],
    "ingress": [
        ConnectionEnded(
            *(103.0, "search", "001", 1, 102.0, 900.0, None, 200, 0),
            *("proxy", "rst", True, "search.example", 443, "namespace"),
        )
    ],
}


def test_an_id_leads_a_reader_to_its_event(tmp_path):
    for process, events in FILES.items():
        writer = Writer(history_file(tmp_path, "run-1", process, 0))
        for event in events:
            writer.write(event)
        writer.close()
    history = read_history(tmp_path, "run-1")
    identified = list(with_ids(history.events()))
    assert len(identified) == 7
    for id, event in identified:
        assert parse_line(history.line(id), history.folder, 0) == event


def test_the_order_of_the_files_does_not_matter():
    mixed = [event for events in FILES.values() for event in events]
    assert dict(with_ids(mixed)) == dict(with_ids([*mixed[3:], *mixed[:3]]))
