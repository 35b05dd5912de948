"""Both generations of Compose read the files without a warning, and give the same services."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.compose.engine import PATIENCE_S, ROOT, V1, V2, has
from tests.compose.rig import CALM, LONG_LIVED, Lab, copy_clone, environment
from tests.support import required

pytestmark = pytest.mark.compose
ON_REQUEST = {"charts", "conversation", "postgres", "redis"}
DIRECT = ("-f", "docker-compose.yaml", "-f", "compose.direct.yaml")
SUBJECT = ("-f", "docker-compose.yaml", "-f", "compose.subject.yaml")


@pytest.fixture(params=[V1, V2], ids=" ".join)
def generation(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if not has(request.param):
        (pytest.fail if required("docker") else pytest.skip)(f"there is no {' '.join(request.param)}")
    return request.param


def config(generation: tuple[str, ...], *arguments: str) -> str:
    done = subprocess.run(
        [*generation, *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("files", [(), DIRECT, SUBJECT], ids=["alone", "direct", "subject"])
def test_file_is_read_without_warning(generation: tuple[str, ...], files: tuple[str, ...]) -> None:
    assert config(generation, *files, "config", "-q") == ""


def test_services_started_by_up(generation: tuple[str, ...]) -> None:
    assert set(config(generation, "config", "--services").split()) - ON_REQUEST == {
        *LONG_LIVED,
        "init",
        "agent",
    }


def test_compose_v1_runs_lab(engine: None, tmp_path: Path) -> None:
    if not has(V1):
        (pytest.fail if required("docker") else pytest.skip)("there is no docker-compose")
    copy_clone(tmp_path)
    lab = Lab(tmp_path, environment("older-"), V1)
    lab.prompts("What is 15% of 240?")
    try:
        lab.compose("up -d", **CALM)
        assert lab.wait() == 0, lab.last_words()
        assert list(lab.last_run().outcomes) == ["success"]
        assert lab.toxics() == {}
        lab.compose("run --rm agent")
        assert len(lab.runs()) == 2
        lab.compose("up --exit-code-from agent", **CALM)
        assert len(lab.runs()) == 3 and not lab.alive()
    finally:
        lab.down()
