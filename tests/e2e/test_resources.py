"""Missing resources of the system: a full disk, few open files, no IPv4 loopback, no /proc.

Each is one line that names it, with an exit code, and nothing that was written is lost.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.lab.demos import environ_in
from tests.support import RUN_PATIENCE_S, latest_run
from wirefault.history.events import EpisodeJudged, RunFinished
from wirefault.history.reader import read_history

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")]

WIREFAULT = (sys.executable, "-m", "wirefault")
CALM = ("--no-charts", "--toxic-prob", "0", "--error-prob", "0", "--toxiproxy", "embedded")
DEMO = (*WIREFAULT, "demo", *CALM)
PROMPT = ("--prompt", "What is the weather in Paris?")
# It fills the disk in its third episode.
FILLING = """
from contextlib import contextmanager, suppress
from pathlib import Path
from wirefault.subjects.subject import SubjectResult

episodes = []

def fill(prompt, context):
    episodes.append(prompt)
    if len(episodes) == 3:
        for size in (65536, 1):
            with suppress(OSError), Path("disk/filler").open("ab", buffering=0) as filler:
                while filler.write(b"x" * size):
                    pass
    return SubjectResult("text", response="It is mild.")

@contextmanager
def open_it(configuration):
    yield fill
"""


@cache
def _may_unshare(flags: str) -> bool:
    try:
        return subprocess.run(["unshare", *flags.split(), "true"], check=False).returncode == 0
    except OSError:
        return False


def unshared(
    folder: Path, flags: str, setup: str, *command: str, after: str = "", **environ: str
) -> tuple[int, str]:
    """Run the command in new namespaces after that setup; exit code and output."""
    if not _may_unshare(flags):
        pytest.skip(f"this user may not unshare {flags}")
    (folder / "p").mkdir(mode=0o700, exist_ok=True)
    script = f'{setup} || exit 99; "$@"; code=$?; {after or ":"}; exit $code'
    done = subprocess.run(
        ["unshare", *flags.split(), "sh", "-c", script, "sh", *command],
        cwd=folder,
        env={**environ_in(folder, XDG_STATE_HOME=str(folder / "p")), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=False,
    )
    assert done.returncode != 99, done.stdout
    return done.returncode, done.stdout


def only_error(ended: tuple[int, str]) -> str:
    """The one line of an error; the lab failed."""
    code, output = ended
    assert code == 70 and "Traceback" not in output, output
    [line] = [line for line in output.splitlines() if line.lower().startswith("error:")]
    return line


def small_disk(folder: Path, size: str, *command: str, **environ: str) -> tuple[int, str]:
    """Run it with a small disk in the folder ``disk``, which is copied to ``copy`` afterwards."""
    (folder / "disk").mkdir()
    setup = f"mount -t tmpfs -o size={size} none disk"
    return unshared(folder, "-rm", setup, *command, after="cp -r disk copy", **environ)


@pytest.mark.parametrize(
    ("size", "place"), [("4k", "disk/logs/"), ("48k", "disk/state/state.db"), ("80k", "disk/state/state.db")]
)
def test_full_disk_is_reported_at_start(tmp_path: Path, size: str, place: str) -> None:
    line = only_error(small_disk(tmp_path, size, *DEMO, *PROMPT, "--out", "disk"))
    assert "the disk is full: " in line and place in line
    assert not list((tmp_path / "copy").rglob(".*.*"))


def test_full_private_folder_is_named(tmp_path: Path) -> None:
    command = ("sh", "-c", f"head -c 4096 /dev/zero > disk/filler; exec {shlex.join([*DEMO, *PROMPT])}")
    private = str(tmp_path / "disk")
    line = only_error(small_disk(tmp_path, "4k", *command, XDG_STATE_HOME=private))
    assert f"the disk is full: {private}/wirefault/" in line


def test_full_disk_in_a_run_is_named_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "filling.py").write_text(FILLING)
    prompts = [word for number in range(8) for word in ("--prompt", f"prompt {number}")]
    words = (*prompts, "--out", "disk", "--subject", "filling:open_it")
    ended = small_disk(tmp_path, "4m", *DEMO, *words)
    assert "the run ended early: the disk is full" in only_error(ended)
    logs = tmp_path / "copy" / "logs"
    history = read_history(logs, latest_run(logs))
    judged = [event for event in history.events() if isinstance(event, EpisodeJudged)]
    assert len(judged) >= 2
    assert not any(event.completed for event in history.events() if isinstance(event, RunFinished))
    assert all(f"\n{number}/8 " in ended[1] for number in range(1, len(judged) + 1))
    assert not list((tmp_path / "copy").rglob(".*.*"))


OUTPUTS = [("list",), ("faults", "list"), ("--help",), ("demo", *CALM, *PROMPT)]


@pytest.mark.parametrize("words", OUTPUTS, ids=lambda words: words[0])
def test_output_on_a_full_disk_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*WIREFAULT, *words],
            cwd=tmp_path,
            env=environ_in(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_PATIENCE_S,
            check=False,
        )
    assert only_error((done.returncode, done.stderr)) == "error: the disk is full"


@pytest.mark.parametrize("limit", [16, 24, 32])
def test_low_limit_of_open_files_is_named(tmp_path: Path, limit: int) -> None:
    code = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)"
    command = (sys.executable, "-c", f"{code}; os.execv(sys.argv[2], sys.argv[2:])", str(limit), *DEMO)
    line = only_error(unshared(tmp_path, "-r", ":", *command, *PROMPT))
    assert f"too many open files, the limit is {limit}: raise it (ulimit -n 1024)" in line


def test_missing_ipv4_loopback_is_named(tmp_path: Path) -> None:
    setup = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
    line = only_error(unshared(tmp_path, "-rn", setup, *DEMO, *PROMPT))
    assert "this machine has no IPv4 loopback" in line and "ip addr add 127.0.0.1/8 dev lo" in line


NO_PROC = "mount -t tmpfs none /proc"


def test_agent_without_proc_is_refused(tmp_path: Path) -> None:
    line = only_error(unshared(tmp_path, "-rm", NO_PROC, *WIREFAULT, "exec", "--", "true"))
    assert line.startswith("error: /proc is not mounted") and "mount -t proc" in line


def test_lab_without_proc_runs_and_stops(tmp_path: Path) -> None:
    assert unshared(tmp_path, "-rm", NO_PROC, *DEMO, *PROMPT)[0] == 0
    words = shlex.join(WIREFAULT)
    code, output = unshared(tmp_path, "-rm", NO_PROC, "sh", "-c", f"{words} lab up; {words} lab down")
    assert (code, output.splitlines()[-1].endswith(" is down")) == (0, True), output
