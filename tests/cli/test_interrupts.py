"""Ctrl-C at any moment from our first line on ends every program with one line and exit code 130."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import ROOT, examples

pytestmark = pytest.mark.slow

WIREFAULT = [sys.executable, "-m", "wirefault"]
# Each command ends with an error after its imports. It is interrupted at a sample of its imports, a third of
# which run outside CI.
COMMANDS: dict[str, tuple[Sequence[str], int]] = {
    "script": ([str(Path(sysconfig.get_path("scripts"), "wirefault")), "runs", "verify", "nope"], 1),
    "module": ([*WIREFAULT, "--nonsense"], 1),
    "faults": ([*WIREFAULT, "faults", "show", "nope"], 4),
    "toxiproxy": ([*WIREFAULT, "toxiproxy", "--config", "nope.json"], 3),
    "lab up": ([*WIREFAULT, "lab", "up", "--toxiproxy", "nonsense"], 4),
    "demo": ([*WIREFAULT, "demo", "--toxic-prob", "2"], 4),
    "agent": ([sys.executable, "-m", "agent"], 12),  # LangChain's imports are very many
    "charts": ([sys.executable, str(ROOT / "charts.py"), "--run", "nope"], 5),
}
# imported before Ctrl-C can be handled
BEFORE = (
    *("runpy", "agent"),
    *("wirefault", "wirefault.__main__", "wirefault.core", "wirefault.core.interrupts"),
)
Row = tuple[str, int, str]


def run_interrupted(folder: Path, command: Sequence[str], every: int) -> list[Row]:
    """For each import the module's name, and the exit code and words of the copy interrupted there."""
    folder.mkdir()
    (folder / "prompts.json").write_text('[{"prompt": "Hello there!"}]')
    report = folder / "report"
    environ = {
        **{name: value for name, value in os.environ.items() if name != "GROQ_API_KEY"},
        "PYTHONPATH": f"{Path(__file__).parent / 'interrupter'}{os.pathsep}{ROOT}",
        "INTERRUPTED": str(report),
        "INTERRUPT_EVERY": str(every * 60 // examples(60)),
        "PROMPTS_FILE": "prompts.json",
        "MODEL": "groq",  # without a key: the run ends when the agent is imported
    }
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode in (64, 70) and "Traceback" not in done.stderr, done.stderr
    rows = (line.split("\t") for line in report.read_text().splitlines())
    return [(module, int(code), str(expected)) for module, code, expected in rows]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[list[Row]]]]:
    folder = tmp_path_factory.mktemp("interrupted")
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run_interrupted, folder / name, *COMMANDS[name]) for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_during_import_is_one_line_and_130(recorded: dict[str, Future[list[Row]]], name: str) -> None:
    rows = recorded[name].result()
    ended_otherwise = [row for row in rows if row[1:] != (130, repr("interrupted\n"))]
    assert [row for row in ended_otherwise if row[0] not in BEFORE] == []
    assert len(rows) - len(ended_otherwise) > examples(20)


def test_blocked_signal_survives_handover() -> None:
    code = (
        "import os, signal, sys\n"
        "from wirefault.core.interrupts import hand_over\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "hand_over([sys.executable, '-m', 'wirefault', '--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_background_job_keeps_ignoring_sigint() -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from wirefault.core.interrupts import end_at_interrupt\n"
        "end_at_interrupt()\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print('goes on')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "goes on\n")


COMMAND_IN_PROCESS = """
import importlib.abc, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)

class Interrupter(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "wirefault.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
sys.argv[1:] = [{command!r}, "--help"]
from wirefault.__main__ import main
main()
"""


@pytest.mark.parametrize(("command", "code"), [("demo", 130), ("run", 130), ("lab", 130), ("runs", 0)])
def test_background_run_ends_at_sigint_from_start(command: str, code: int) -> None:
    program = [sys.executable, "-c", COMMAND_IN_PROCESS.format(command=command)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, "interrupted\n" if code else "")
