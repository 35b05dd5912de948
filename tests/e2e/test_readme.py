"""Every command of the README, run in a folder with the files of a clone."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import commands
from tests.support import ROOT, RUN_PATIENCE_S, until
from tests.upstream import FREE
from wirefault.core.lab_folder import MARKER
from wirefault.core.sockets import Address, bind, bound_address

README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def shell_lines() -> list[str]:
    """Every command of the README's shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


# tests/compose plays those that need Docker, tests/package installs,
# and test_experiments.py runs the shipped experiment
ELSEWHERE = r"^make |^pipx |\bdocker\b|&$|^wirefault run experiments/"
PLAYED = [line for line in shell_lines() if not re.search(ELSEWHERE, line)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    for name in (
        "agent",
        "examples",
        "experiments",
        "flask_tools",
        "proxy_manager",
        "charts.py",
        "Makefile",
        "requirements-dev.lock",
        "pyproject.toml",
    ):
        (folder / name).symlink_to(ROOT / name)
    (folder / MARKER).touch()  # a lab, as the whole clone is
    samples = json.loads((ROOT / "agent" / "prompts.json").read_text(encoding="utf-8"))
    few = [samples[0], samples[17], samples[14]]  # a question, a message, the calendar
    (folder / "few.json").write_text(json.dumps(few), encoding="utf-8")
    return folder


def run(folder: Path, line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell; a plain call of ``wirefault`` in this process.

    ``lab up`` needs a shell: the lab that it leaves running would be a child of this process.
    """
    # `make test ARGS=...` must not reach the `make run` of a test
    inherited = {key: value for key, value in os.environ.items() if key not in ("ARGS", "MAKEFLAGS")}
    environ = {**inherited, "PATH": f"{BIN}:{os.environ['PATH']}", "SEED": "7", **more}
    if line.startswith("wirefault ") and "|" not in line and line != "wirefault lab up":
        return commands.wirefault(folder, environ, *shlex.split(line)[1:])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )


def test_readme_names_make_run_and_make_test_first() -> None:
    assert [line for line in shell_lines() if line.startswith("make ")][:2] == ["make run", "make test"]


def test_make_run(clone: Path) -> None:
    venv = BIN.parent
    done = run(clone, shlex.join(["make", "-o", f"{venv}/.ready", "run", f"VENV={venv}"]))
    assert done.returncode == 0, done.stderr
    assert "wirefault demo --seed 7" in done.stdout
    assert list((clone / "logs" / "charts").glob("*/overview.png"))
    assert (clone / "logs" / "agent.log").read_text(encoding="utf-8").count("\n") >= 24
    assert sorted(path.name for path in (clone / "state").iterdir()) == ["effects.db", "state.db"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the shop that the README starts, on a free port."""
    with bind(FREE) as free:
        address = bound_address(free)
    where = [str(address.port), str(tmp_path_factory.mktemp("shop") / "shop.db")]
    shop = subprocess.Popen([sys.executable, ROOT / "examples" / "shop" / "shop.py", *where])
    try:
        until(lambda: _listens(address), "the shop")
        yield address.url
    finally:
        shop.terminate()
        shop.wait()


def _listens(address: Address) -> bool:
    with suppress(OSError):
        socket.create_connection((address.host, address.port)).close()
        return True
    return False


def is_own_agent(line: str) -> bool:
    return line.startswith("wirefault run ") and "--lab" not in line


@pytest.mark.parametrize("line", [line for line in PLAYED if is_own_agent(line)])
def test_readme_own_agent_commands(clone: Path, shop: str, line: str) -> None:
    led = line.replace("http://127.0.0.1:9000", shop)
    led = led.replace("wirefault run", f"wirefault run --no-charts --link shop={shop}")
    done = run(clone, led)
    assert done.returncode == 0, done.stderr
    assert "wirefault run --seed 1" in done.stdout
    assert re.search(r"^2/3  duplicate .*lose_reply", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^3/3  unjudged ", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("line", [line for line in PLAYED if line.startswith("wirefault exec")])
def test_unchanged_command(clone: Path, shop: str, line: str) -> None:
    done = run(clone, line.replace("http://127.0.0.1:9000", shop))
    assert done.returncode in (0, 1, 2), done.stderr  # its one request may meet no fault
    assert f"port_{shop.rpartition(':')[2]}  {shop}" in done.stderr
    assert shop in (clone / "found.yaml").read_text(encoding="utf-8")


OTHERS = [
    line
    for line in PLAYED
    if not (is_own_agent(line) or line.startswith(("wirefault exec", "wirefault demo")))
]


@pytest.mark.parametrize("line", OTHERS)
def test_remaining_readme_line(clone: Path, line: str) -> None:
    done = run(clone, line, PROMPTS_FILE="few.json")
    assert done.returncode == 0, done.stderr
    if "--json" in line:
        assert json.loads(done.stdout)["seed"] == 7


# what the comment of a line promises
PROMISES = {
    "--persona fabricator": r"^false_success +\d",
    "--idempotency off": r"^duplicate +\d",
    "--only 3": r"^ 3/29 .* weather timeout",
}


@pytest.mark.parametrize("words", PROMISES)
def test_demo_shows_what_the_readme_says(clone: Path, words: str) -> None:
    [line] = [line for line in PLAYED if line.startswith("wirefault demo") and words in line]
    # test_make_run draws the charts
    done = run(clone, line.replace("wirefault demo", "wirefault demo --no-charts"))
    assert done.returncode == 0, done.stderr
    assert re.search(PROMISES[words], done.stdout, re.MULTILINE), done.stdout


def test_every_demo_line_is_tested() -> None:
    demos = [line for line in PLAYED if line.startswith("wirefault demo")]
    assert all(any(words in line for words in PROMISES) for line in demos)


def test_at_least_a_third_of_the_toxics_of_the_demo_are_met(clone: Path) -> None:
    done = run(clone, "wirefault demo --no-charts --json --seed 1")
    toxics = [row for row in json.loads(done.stdout)["faults"] if row["source"] == "toxic"]
    drawn, reached = (sum(row[stage] for row in toxics) for stage in ("drawn", "met"))
    assert 0 < drawn <= 3 * reached


def test_readme_is_short_and_links_exist() -> None:
    assert len(PLAYED) >= 6 and len(README.splitlines()) <= 150
    for path in re.findall(r"\]\(((?:docs/|CHANGELOG)[^)#]*)", README):
        assert (ROOT / path).exists(), path
