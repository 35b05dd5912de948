"""A lab in containers for all tests of a group. Failures show its logs, and it is removed at the end."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compose.engine import (
    BUILD_PATIENCE_S,
    IMAGE,
    ROOT,
    V1,
    V2,
    forget_image,
    has,
    remove_orphans,
    removed_with_this_process,
    why_not,
)
from tests.compose.rig import CALM, SELDOM, Lab, copy_clone, environment
from tests.support import made_once, required, until

LAB = pytest.StashKey[Lab]()
OWNER = 12001  # of the clone, where the tests may choose: neither root nor the services


def readme_lines() -> list[str]:
    """The commands of the README's Compose section."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^#+ [^\n]*Compose.*?(?=^#|\Z)", readme, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"```sh\n(.*?)```", section.group() if section else "", flags=re.DOTALL)
    lines = (line.split("#")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Docker, Compose and the image of these files; or the reason why these tests are skipped."""
    if reason := why_not():
        (pytest.fail if required("docker") else pytest.skip)(f"the Compose lab is not tested: {reason}")
    with removed_with_this_process():
        made_once("image", build_image, tmp_path_factory)
        yield


def build_image(folder: Path) -> None:
    """For all labs except the one of ``first``: after a build in a test, the next `up` starts anew."""
    copy_clone(folder)
    remove_orphans()
    forget_image(IMAGE)
    Lab(folder, environment(), V2 if has(V2) else V1).compose("build init")


@pytest.fixture(scope="package")
def clone(
    engine: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A fresh clone that has not been started."""
    folder = tmp_path_factory.mktemp("clone")
    folder.chmod(0o755)
    copy_clone(folder)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OWNER, OWNER)
    lab = Lab(folder, environment(), V2 if has(V2) else V1)
    request.session.stash[LAB] = lab
    try:
        yield lab
    finally:
        lab.down()


@dataclass
class FirstUp:
    """Result of `docker compose up` in a fresh clone."""

    code: int
    output: str
    still_up: set[str]


def start_in_foreground(lab: Lab, line: str, output_file: Path) -> FirstUp:
    """Types an `up` that stays in the foreground, and leaves when the agent has ended. The lab stays up."""
    before = lab.containers("agent").get("agent", {}).get("State", {}).get("StartedAt")

    def started() -> bool:
        assert process.poll() is None, f"{line} ended: {output_file.read_text()}"
        agent = lab.containers("agent").get("agent")
        # a date before our era is Docker's word for never
        return bool(agent and agent["State"]["StartedAt"] not in (before, "0001-01-01T00:00:00Z"))

    with lab.typed(line, output_file) as process:
        until(started, "the agent to start", **SELDOM | {"patience": BUILD_PATIENCE_S})
        code = lab.wait()
        until(
            lambda: "error:" in output_file.read_text() or "history:" in output_file.read_text(),
            "the agent's last words",
            **SELDOM,
        )
        return FirstUp(code, output_file.read_text(), lab.alive())


@pytest.fixture(scope="package")
def first(clone: Lab, tmp_path_factory: pytest.TempPathFactory) -> FirstUp:
    """The README's first line, which also builds the image."""
    forget_image(image := f"{IMAGE}-first")
    clone.environ["WIREFAULT_IMAGE"] = image
    return start_in_foreground(clone, readme_lines()[0], tmp_path_factory.mktemp("output") / "first.txt")


@pytest.fixture
def lab(clone: Lab) -> Iterator[Lab]:
    """The lab, up after a run and with none in it. A test that leaves a toxic behind fails."""
    clone.prompts("What is the temperature in Paris right now?")
    if not clone.runs():
        clone.compose("up -d", **CALM)
        assert clone.wait() == 0, clone.last_words()
    clone.up()
    before = clone.runs()
    yield clone
    if clone.runs() != before and "proxy_mgr" in clone.alive():
        assert clone.toxics() == {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    lab = item.session.stash.get(LAB, None)
    if report.failed and lab is not None and call.when != "teardown":
        report.sections.append(("the lab's logs", lab.last_words()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print measured durations (not asserted), and the reasons of skipped tests."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
    skipped = Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    for reason, count in skipped.items():
        terminalreporter.write_line(f"{count} not tested: {reason.removeprefix('Skipped: ')}")
