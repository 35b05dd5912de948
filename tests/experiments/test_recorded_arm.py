"""A recorded run is read once, whatever is shown of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.report.synthetic import SyntheticRun
from wirefault.experiments.recorded import open_recording
from wirefault.history import reader
from wirefault.history.events import Event
from wirefault.report.page.write import page_content, page_html


def test_lines_of_a_run_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SyntheticRun(tmp_path, prompts=3).write()
    parsed: Counter[tuple[Path, int]] = Counter()
    parse = reader.parse_line

    def counted(line: bytes, path: Path, number: int) -> Event:
        parsed[path, number] += 1
        return parse(line, path, number)

    monkeypatch.setattr(reader, "parse_line", counted)
    recording = open_recording(tmp_path, "run-a", {})
    assert "e002" in page_html(page_content(recording))
    [arm] = recording.arms.values()
    assert arm.run_of("e002") == arm.events and len(arm.summary.episodes) == 3
    assert len(parsed) > 20 and set(parsed.values()) == {1}
