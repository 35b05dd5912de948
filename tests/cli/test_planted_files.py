"""Every file below ``state/`` and ``logs/`` that a command opens, planted by another user.

Each command runs once, and an audit hook finds the files that it opens. Then it runs again with each of them
planted, so a file that a command opens from tomorrow on is tried without an entry here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import requests
from click.testing import CliRunner, Result

from tests.commands import draw_charts
from tests.core.hostile import TRAPS
from tests.experiments.test_run_experiment import PaperEngine, run_on_paper
from tests.report.synthetic import SyntheticRun
from tests.support import share
from wirefault.cli.main import main
from wirefault.core.api_server import api_in_thread
from wirefault.core.sockets import bound_address
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.saved import save
from wirefault.lab.launcher import Lab
from wirefault.lab.process import LabError
from wirefault.report.charts import CHARTS

OLD, EXPERIMENT, RUN = "20260101-000000-aaaaaa", "20260201-000000-bbbbbb", "20260301-000000-cccccc"
OUTSIDE = "a line of a file outside"
BOUND_S = 60
HUGE = 1 << 40

# Those that start a lab end where it would start.
COMMANDS = (
    "list",
    f"show {RUN}",
    f"report {EXPERIMENT}",
    f"report {RUN} --html page.html",
    f"runs compare {EXPERIMENT} {RUN}",
    "runs trend",
    f"runs verify {EXPERIMENT}",
    "runs archive --keep 0",
    f"runs bundle {EXPERIMENT}",
    "memory rebuild",
    "memory show",
    f"memory mark {RUN} odd",
    f"baseline accept {EXPERIMENT}",
    "search next exp.json",
    "init",
    "lab serve --port 0",
    "charts",
    pytest.param("ui --port 0", marks=pytest.mark.slow),
    pytest.param(f"run --resume {EXPERIMENT}", marks=pytest.mark.slow),
    pytest.param("audit --resume AUDIT", marks=pytest.mark.slow),
)


def foreign(path: Path, _victim: Path) -> None:
    path.write_bytes(b"{}\n")
    os.chown(path, 4321, 4321)


def huge(path: Path, _victim: Path) -> None:
    path.touch()
    os.truncate(path, HUGE)  # sparse: uses no disk space


PAGES = ("/", f"/compare?first={RUN}&second={EXPERIMENT}", "/memory", "/lab", "/status")

PLANTED = {name: TRAPS[name] for name in ("link", "dangling_link", "pipe", "folder")}
PLANTED |= {"huge": huge} | ({"foreign": foreign} if os.geteuid() == 0 else {})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each of the commands has something to read."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        work_in(folder, patch)
        (folder / "exp.json").write_text(
            '{"title": "On paper", "only": ["1", "2"], "method": {"settings": {"error_prob": 1}},'
            ' "hypothesis": ["no crash"]}'
        )
        saved = save(plan_experiment(load_experiment(folder / "exp.json"), os.environ), EXPERIMENT)
        run_on_paper(saved, PaperEngine())
        for name in (OLD, RUN):
            SyntheticRun(folder / "logs", name, prompts=1).write()
        for path in folder.rglob("*"):
            os.utime(path, (1e9, 1e9))  # else it could be in progress
        archived = folder.with_name("archived")
        shutil.copytree(folder, archived)
        recording = (
            "audit --dry-run -- true",
            "lab serve --port 0",
            "memory rebuild",
            f"memory mark {OLD} odd",
        )
        for command in recording:
            call(command)
        work_in(archived, patch)
        call("runs archive --keep 2")
        shutil.copy(archived / "logs" / "archive.zip", folder / "logs")
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return folder


def work_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    def start(_: Lab) -> None:
        raise LabError("no lab is started here")

    @contextmanager
    def visited(app: Any, listener: socket.socket) -> Iterator[None]:
        with api_in_thread(app, listener):
            url = bound_address(listener).url
            pages = re.findall(r'href="(/runs/[^"]+)"', requests.get(url, timeout=BOUND_S).text)
            for page in (*PAGES, *pages):
                click.echo(requests.get(f"{url}{page}", timeout=BOUND_S).text)
            yield

    for name in ("logs", "state"):
        (folder / name).mkdir(exist_ok=True)
    patch.chdir(folder)
    patch.setattr(Lab, "_start", start)
    patch.setattr("wirefault.core.api_server.api_in_thread", visited)
    patch.setattr("wirefault.core.api_server.wait_for_signal", lambda: None)
    patch.setattr("wirefault.report.charts.CHARTS", dict([next(iter(CHARTS.items()))]))
    for variable, place in (
        ("LOGS_DIR", "logs"),
        ("STATE_DB", "state/state.db"),
        ("EFFECTS_DB", "state/effects.db"),
    ):
        patch.setenv(variable, place)


def call(command: str) -> Result:
    if command == "charts":
        return draw_charts("--run", RUN)
    audits = [path.parent.name for path in Path("logs", "experiments").glob("*/audit.json")]
    return CliRunner().invoke(main, command.replace("AUDIT", audits[0] if audits else "latest").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_planted_file_is_refused_or_replaced(
    command: str, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    work_in(folder, monkeypatch)
    restore(recorded, folder)
    known = {path.relative_to(folder) for path in folder.rglob("*")}
    with opened_files(folder, monkeypatch) as opened:
        call(command)
    problems = []
    places = {kind_of(path): path for path in sorted(opened) if can_be_planted(path, known)}.values()
    assert places
    for number, place in enumerate(places):
        for which, (name, plant) in enumerate(PLANTED.items()):
            if share(number + which):
                restore(recorded, folder)
                problems += [f"{name} at {place}: {each}" for each in trial(command, folder, place, plant)]
    assert not problems, "\n".join(problems)


def trial(command: str, folder: Path, place: Path, plant: Callable[[Path, Path], None]) -> Iterator[str]:
    victim = folder.with_name("victim") / "file"
    shutil.rmtree(victim.parent, ignore_errors=True)
    victim.parent.mkdir()
    victim.write_text(OUTSIDE)
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    plant(path, victim)
    for each in (path, path.parent):
        os.utime(each, (1e9, 1e9), follow_symlinks=False)  # else it could be in progress
    planted = path.lstat()
    before = evidence_in(folder)
    result = in_time(lambda: call(command))
    if not isinstance(result.exception, SystemExit | None):
        yield f"raised {result.exception!r}"
    if [file.read_text() for file in victim.parent.iterdir()] != [OUTSIDE]:
        yield "a file outside was written"
    copies = [file for file in (folder / "logs").rglob("*") if file != path and OUTSIDE in text(file)]
    if OUTSIDE in result.output or copies:
        yield "a file outside was read"
    is_left = os.path.lexists(path) and path.lstat().st_ino == planted.st_ino
    is_sparse = plant is huge and place.name.endswith((".log", ".lock", ".db-journal", ".sqlite-journal"))
    # the trend shows what the recorded verdicts say, without the rates that need the histories
    is_unused = command == "runs trend" and path.name == "info.log"
    if (
        is_left and place.name not in result.output and not is_sparse and not is_unused
    ):  # appended to, locked, or not SQLite's
        yield f"ends with {result.exit_code} without its name: {result.output[-300:]}"
    lost = before - evidence_in(folder)
    if lost and command.startswith("runs archive"):
        with zipfile.ZipFile(folder / "logs" / "archive.zip") as archive:
            lost -= {Path(*Path(name).parts[1:]) for name in archive.namelist()}
    if lost:
        yield f"lost {lost}"


def restore(recorded: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(recorded, folder)
    os.chdir(folder)


def evidence_in(folder: Path) -> set[Path]:
    logs = folder / "logs"
    files = [path for name in ("runs", "experiments") for path in (logs / name).rglob("*")]
    regular = [path for path in files if path.is_file() and not path.is_symlink()]
    return {path.relative_to(logs) for path in regular if path.name != "end.json"}  # written at each end


def text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() and path.stat().st_size < HUGE else ""


_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}|lab-[0-9a-f]{6}")
_DRAWN_NAME = re.compile(r"\..+\.[0-9a-f]{8}")


def can_be_planted(path: Path, known: set[Path]) -> bool:
    """Whether its name is known before the command draws ids and names of temporary files."""
    drawn = [part for part in path.parts if _ID.match(part) and not any(part in each.parts for each in known)]
    return not drawn and not _DRAWN_NAME.fullmatch(path.name)


def kind_of(path: Path) -> str:
    return re.sub(r"\d", "", _ID.sub("ID", str(path)))


_listeners: list[Callable[[Any], None]] = []


@contextmanager
def opened_files(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[set[Path]]:
    """Collect what this process opens below ``logs`` and ``state``, without their folders."""
    paths: set[Path] = set()

    def note(name: Any, parent: Path | None = None) -> None:
        if isinstance(name, str | bytes | os.PathLike):
            path = (parent or Path.cwd()) / os.fsdecode(name)
            below = path.relative_to(folder) if path.is_relative_to(folder) else Path()
            if below.parts[:1] in (("logs",), ("state",)) and not path.is_dir():
                paths.add(below)

    real = os.open

    def noted(name: Any, *arguments: Any, dir_fd: int | None = None) -> int:
        if dir_fd is not None:  # which the audit event does not have
            note(name, Path(f"/proc/self/fd/{dir_fd}").readlink())
        return real(name, *arguments, dir_fd=dir_fd)

    if not hasattr(opened_files, "hooked"):
        sys.addaudithook(_note_opened)  # cannot be removed
        opened_files.hooked = True  # type: ignore[attr-defined]
    _listeners.append(note)
    try:
        with patch.context() as context:
            context.setattr(os, "open", noted)
            yield paths
    finally:
        _listeners.remove(note)


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "sqlite3.connect"):
        for note in _listeners:
            note(arguments[0])


def in_time(command: Callable[[], Result]) -> Result:
    def late(*_: object) -> None:
        raise TimeoutError("it did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(BOUND_S)
    try:
        return command()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("place", ["runs", "experiments", "charts", "pages"])
def test_prune_removes_nothing_that_a_planted_link_names(
    place: str, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "file").write_text(OUTSIDE)
    work_in(folder, monkeypatch)
    restore(recorded, folder)
    planted = folder / "logs" / place / (EXPERIMENT if place == "experiments" else RUN)
    planted.parent.mkdir(exist_ok=True)
    shutil.rmtree(planted, ignore_errors=True)
    planted.symlink_to(outside)
    result = in_time(lambda: call("runs prune --keep 0"))
    assert isinstance(result.exception, SystemExit | None), result.output
    assert [file.read_text() for file in outside.iterdir()] == [OUTSIDE]


# A file of the user's beyond the bound: a text of 200 MB took a minute, or all memory.
BIG_INPUTS = {
    "big.yaml": (
        "plan big.yaml",
        "run big.yaml",
        "exec --faults big.yaml -- true",
        "faults show big.yaml",
        "run .",
    ),
    "big.json": ("mcp --config big.json", "compare --baseline big.json latest", "plan with-prompts.yaml"),
}


@pytest.mark.parametrize(
    ("name", "command"), [(name, each) for name, commands in BIG_INPUTS.items() for each in commands]
)
def test_huge_input_file_is_refused_with_one_sentence(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in(tmp_path, monkeypatch)
    huge(Path(name), Path())
    Path("wiring.yaml").write_text(
        '{links: {shop: {upstream: "http://127.0.0.1:9"}}, subject: {command: [x]}}'
    )
    Path("with-prompts.yaml").write_text(
        "{title: x, wiring: wiring.yaml, prompts: big.json, hypothesis: [no crash],"
        " method: {faults: [{fault: delay}]}}"
    )
    result = in_time(lambda: call(command))
    assert isinstance(result.exception, SystemExit) and result.exit_code == 64, result.output
    assert re.search(rf"{name}: .*larger than \d+ MB", result.output), result.output


@pytest.mark.parametrize("command", ["runs archive --keep 0", f"runs bundle {RUN}"])
def test_huge_file_of_the_subject_is_refused(
    command: str, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    work_in(folder, monkeypatch)
    restore(recorded, folder)
    attempts = folder / "logs" / "runs" / RUN / "attempts"
    attempts.mkdir()
    huge(attempts / "core", Path())
    for each in (attempts / "core", attempts, attempts.parent):
        os.utime(each, (1e9, 1e9))  # else it could be in progress
    result = in_time(lambda: call(command))
    assert isinstance(result.exception, SystemExit) and "core: larger than" in result.output, result.output
    assert (attempts / "core").exists()
