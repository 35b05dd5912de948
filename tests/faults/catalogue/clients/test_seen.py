"""The table of clients' views is complete and recorded correctly."""

from __future__ import annotations

import pytest

from tests.faults.catalogue.clients.seen import FILE, Seen, dumped, fault_of, row_of, saw
from wirefault.faults.registry import REGISTRY


def test_row_is_written_once_then_compared(tmp_path):
    Seen(tmp_path / "seen.json", write=True).note("hang", "requests", "exception ReadTimeout")
    seen = Seen(tmp_path / "seen.json")
    seen.note("hang", "requests", "exception ReadTimeout")
    with pytest.raises(AssertionError, match="exception ReadTimeout"):
        seen.note("hang", "requests", "good answer")
    with pytest.raises(AssertionError, match="not in the table"):
        seen.note("hang", "groq", "good answer")


@pytest.mark.parametrize(
    ("call", "tries", "words"),
    [
        (lambda: 1, 1, "good answer"),
        (lambda: 2, 1, "silent: changed answer taken as good"),
        (lambda: 1, 2, "retried once, then good answer"),
        (lambda: 1 / 0, 4, "retried 3 times, then exception ZeroDivisionError"),
    ],
)
def test_client_view_in_words(call, tries, words):
    assert saw(call, 1, lambda: tries) == words


def test_rows_name_fault():
    assert row_of("hang", {"at": "mid_body", "forwarded": False}) == "hang (at: mid_body, forwarded: false)"
    assert fault_of(row_of("hang", {"at": "mid_body"})) == fault_of(row_of("hang")) == "hang"


def test_table_has_exactly_catalogue_faults():
    """Faults of MCP have a separate table, since other clients see them; kill_subject ends the client."""
    expected = {name for name, fault in REGISTRY.items() if fault.family != "mcp"} - {"kill_subject"}
    assert {fault_of(row) for row in Seen(FILE).read()} == expected


def test_table_is_canonical():
    assert FILE.read_text(encoding="utf-8") == dumped(Seen(FILE).read())
