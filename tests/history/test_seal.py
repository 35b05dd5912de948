"""The seal at a run's end and its evidence about files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from wirefault.core.files import read_shared
from wirefault.history import reader
from wirefault.history.events import Note, RunFinished, RunSealed, SealedFile
from wirefault.history.lines import dump_event
from wirefault.history.logs import Logs
from wirefault.history.reader import RunHistory, Tail, read_history
from wirefault.history.seal import examine
from wirefault.history.writer import Writer, history_file

AGENT, GATEWAY, MANAGER = "agent-0.jsonl", "gateway-0.jsonl", "manager-0.jsonl"
FINISHED = RunFinished(9.0, True, "", 0)


def note(message: str) -> Note:
    return Note(1.0, "info", message)


@dataclass
class Run:
    logs: Path
    run_id: str = "run-1"

    def path(self, file: str) -> Path:
        return self.logs / "runs" / self.run_id / file

    def lines(self, file: str) -> list[bytes]:
        return self.path(file).read_bytes().splitlines(keepends=True)

    def write(self, process: str, *messages: str) -> None:
        writer = Writer(history_file(self.logs, self.run_id, process, 0))
        for message in messages:
            writer.write(note(message))
        writer.close()

    def seal(self) -> str:
        """Ends the run as the runner does; the seal's hash."""
        tails = [Tail(self.path(file)) for file in (GATEWAY, MANAGER)]
        for tail in tails:
            tail.read()
        writer = Writer(self.path(AGENT))
        sealed = RunSealed({tail.name: tail.sealed() for tail in tails})
        writer.write_lines([dump_event(FINISHED), dump_event(sealed)])
        writer.close()
        return writer.head

    def tell_summary(self, seal: str) -> None:
        logs = Logs(self.logs, self.run_id)
        logs.line("summary", "run summary", summary={}, seal=seal)
        logs.close()

    def read(self) -> RunHistory:
        return read_history(self.logs, self.run_id)

    def altered(self) -> list[str]:
        """Each alteration's place and its first words."""
        return [str(alteration).split(",")[0] for alteration in self.read().integrity.alterations]

    def remarks(self) -> list[str]:
        return list(self.read().integrity.remarks())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.write("agent", "a1", "a2")
    run.write("gateway", "g1", "g2", "g3")
    return run


def test_sealed_run_is_intact(run):
    seal = run.seal()
    integrity = run.read().integrity
    assert (integrity.seal, integrity.alterations, run.remarks()) == (seal, (), [])


def test_missing_file_is_sealed_as_empty(run):
    run.seal()
    sealed = json.loads(run.lines(AGENT)[-1])["files"]
    assert sealed[MANAGER] == {"lines": 0, "head": ""} and sealed[GATEWAY]["lines"] == 3


def test_killed_run_is_unsealed_and_readable(run):
    with run.path(GATEWAY).open("ab") as file:
        file.write(b'{"t":1.0,"mes')
    assert run.remarks() == ["unsealed: the run was killed or is still running"]
    assert (run.altered(), len(run.read().events()), run.read().torn) == ([], 5, 1)


def test_altered_killed_run_is_altered(run):
    run.path(GATEWAY).write_bytes(b"".join(run.lines(GATEWAY)[1:]))
    assert run.altered() == [f"{GATEWAY}:1: lost: this was line 2"]


def test_history_without_chain_is_altered(run):
    for file in (AGENT, GATEWAY):
        run.path(file).write_bytes(dump_event(note("unchained")) + b"\n")
    assert [place.partition(": ")[2] for place in run.altered()] == [
        "altered or inserted: the hash of the line before is missing"
    ] * 2


def test_events_after_seal_are_counted_and_skipped(run):
    run.seal()
    run.write("gateway", "late", "later")
    run.write("manager", "late")
    assert run.remarks() == [
        f"{GATEWAY}: 2 lines after the seal, not judged",
        f"{MANAGER}: 1 line after the seal, not judged",
    ]
    assert [event.message for event in run.read().events() if isinstance(event, Note)] == [
        *("a1", "a2", "g1", "g2", "g3")
    ]
    assert run.altered() == []


def test_events_after_seal_are_chained(run):
    run.seal()
    run.write("gateway", "late", "later")
    run.path(GATEWAY).write_bytes(b"".join([*run.lines(GATEWAY)[:3], *run.lines(GATEWAY)[4:]]))
    assert run.altered() == [f"{GATEWAY}:4: lost: this was line 5"]


def test_unsealed_file_is_named_safely(run):
    run.seal()
    writer = Writer(run.path("a\x1b[2J.jsonl"))
    writer.write(note("another's"))
    writer.close()
    assert run.altered() == ["a[2J.jsonl:1: inserted: the run's seal does not name this file"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"lines":3', b'"lines":2'),
        (b'"lines":0', b'"lines":-7'),
        (b'"head":""', b'"head":"x"'),
        (b'"files"', b'"filos"'),
        (b',"files"', b',"more":1,"files"'),
        (b'"run_sealed"', b'"run_healed"'),
        (b'"n":4', b'"n":5'),
        (b'"n":4', b'"n":04'),
    ],
)
def test_altered_seal_is_detected(run, old, new):
    run.seal()
    *lines, last = run.lines(AGENT)
    assert old in last
    run.path(AGENT).write_bytes(b"".join([*lines, last.replace(old, new)]))
    assert run.altered() != []


@pytest.mark.parametrize("other", [b"", b"\n", b"0", b"00"])
def test_changed_byte_of_sealed_run_is_detected(run, other):
    run.write("manager", "m1")
    run.seal()
    whole = {file: run.path(file).read_bytes() for file in (AGENT, GATEWAY, MANAGER)}
    unnoticed = []
    for file, data in whole.items():
        for at in range(len(data)):
            edited = whole | {file: data[:at] + other + data[at + 1 :]}
            files = {name: text.split(b"\n")[:-1] for name, text in edited.items()}
            if edited != whole and not examine("run-1", files).alterations:
                unnoticed.append((file, at))
    assert unnoticed == []


def test_removed_seal_is_detected_after_run_finished(run):
    run.seal()
    run.path(AGENT).write_bytes(b"".join(run.lines(AGENT)[:-1]))
    assert run.altered() == [f"{AGENT}:4: altered or lost: run_sealed"]


@pytest.mark.parametrize("planted", ["agent-!.jsonl", "agent-1.jsonl", GATEWAY])
def test_seal_in_other_file_is_ignored(run, planted):
    run.seal()
    files = {name: SealedFile(len(run.lines(name)), "") for name in (AGENT, GATEWAY)}
    writer = Writer(run.path(planted))
    writer.write(RunSealed(files))
    writer.close()
    assert any("a second seal" in str(alteration) for alteration in run.read().integrity.alterations)


def test_earlier_sorting_file_does_not_hide_seal(run):
    run.seal()
    writer = Writer(run.path("agent-!.jsonl"))
    writer.write(note("planted"))
    writer.close()
    assert run.altered() == ["agent-!.jsonl:1: inserted: the run's seal does not name this file"]


def test_runner_file_ends_with_seal(run):
    run.seal()
    run.write("agent", "forged")
    assert run.altered() == [f"{AGENT}:5: inserted: the runner wrote nothing after the seal"]


def test_model_text_is_not_seal(run):
    writer = Writer(run.path(AGENT))
    writer.write(note(dump_event(RunSealed({})).decode()))
    writer.close()
    assert run.read().integrity.seal == ""


def test_missing_runner_end_is_detected_by_info_log(run):
    run.tell_summary(run.seal())
    run.path(AGENT).write_bytes(b"".join(run.lines(AGENT)[:-2]))
    assert run.altered()[0].startswith(f"{AGENT}:3: lost: the end of the run")


def test_run_that_ends_while_it_is_read_is_not_altered(run, monkeypatch):
    def read_then_end(logs: Path, path: Path, limit: int) -> bytes:
        data = read_shared(logs, path, limit)
        if path.name == AGENT:
            run.tell_summary(run.seal())
        return data

    monkeypatch.setattr(reader, "read_shared", read_then_end)
    assert run.altered() == []


def test_rewritten_run_differs_from_seal_in_info_log(run):
    run.tell_summary(run.seal())
    for file in (AGENT, GATEWAY):
        run.path(file).unlink()
    run.write("agent", "forged")
    run.write("gateway", "g1", "g2", "g3")
    run.seal()
    assert run.altered() == [f"{AGENT}:3: altered: not the seal of this run"]


def test_history_without_hashes_is_not_old_if_info_log_has_seal(run):
    run.tell_summary(run.seal())
    for file in (AGENT, GATEWAY):
        run.path(file).write_bytes(dump_event(note("stripped")) + b"\n")
    assert run.altered()[0].startswith(f"{AGENT}:1: altered or inserted")


@pytest.mark.parametrize("line", ["", "not json", "[]", '{"run_id": "run-1",', "[" * 9999])
def test_unreadable_or_silent_info_log_is_ignored(run, line):
    run.seal()
    (run.logs / "info.log").write_text(f'{line} "event": "summary" run-1\n{{"event": "summary"}}\n')
    assert run.altered() == []


def test_exchanged_files_are_detected(run):
    run.seal()
    other = Run(run.logs, "run-2")
    other.write("agent", "a")
    other.write("gateway", "g1", "g2", "g3")
    other.seal()
    run.path(GATEWAY).write_bytes(other.path(GATEWAY).read_bytes())
    assert run.altered() == [f"{GATEWAY}:1: of another file or run: was it moved"]


def test_tail_seals_lines_it_read(run):
    tail = Tail(run.path(GATEWAY))
    assert tail.sealed() == SealedFile(0, "")
    tail.read()
    before = tail.sealed()
    run.write("gateway", "more")
    assert (tail.sealed(), before.lines) == (before, 3)
