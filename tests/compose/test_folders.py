"""./state and ./logs belong to the user and the services only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.compose.conftest import OWNER
from tests.compose.engine import PATIENCE_S, base_images
from tests.compose.rig import Lab

pytestmark = pytest.mark.compose

READ = "cd /project && cat state/state.db state/effects.db logs/agent.log logs/runs/*/* >/dev/null"
WRITE = "cd /project && echo >> logs/info.log && touch state/new && rm state/new"
DELETE = "cd /project && rm -rf logs/runs/* logs/charts logs/*.log state/*.db"


def as_user(lab: Lab, uid: int, script: str) -> subprocess.CompletedProcess[str]:
    """Access the lab's folder as a host user who is in no group of the services."""
    options = ["--rm", "--network", "none", "--user", f"{uid}:{uid}", "-v", f"{lab.folder}:/project"]
    return subprocess.run(
        ["docker", "run", *options, base_images()[0], "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def owner(lab: Lab) -> int:
    return lab.folder.stat().st_uid


@pytest.mark.parametrize("folder", ["state", "logs"])
def test_folder_belongs_to_owner_and_services(lab: Lab, owner: int, folder: str) -> None:
    status = (lab.folder / folder).stat()
    assert (status.st_uid, status.st_gid, oct(status.st_mode & 0o7777)) == (owner, 10001, "0o2770")


def test_other_user_has_no_access(lab: Lab) -> None:
    for script in (READ, WRITE, "ls /project/state", "ls /project/logs"):
        done = as_user(lab, OWNER + 1, script)
        assert done.returncode != 0
        assert "Permission denied" in done.stderr


def test_owner_can_write_delete_and_rerun(lab: Lab, owner: int) -> None:
    for script in (READ, WRITE):
        done = as_user(lab, owner, script)
        assert done.returncode == 0, done.stderr
    lab.compose("stop --timeout 3")
    assert as_user(lab, owner, DELETE).returncode == 0
    assert [path.name for path in (lab.folder / "state").iterdir()] == [".gitkeep"]
    lab.compose("run --rm agent")
    assert lab.last_run().completed


@pytest.mark.parametrize("folder", ["state", "logs"])
def test_unwritable_folder_is_one_line_error(lab: Lab, folder: str, tmp_path: Path) -> None:
    read_only = tmp_path / "read_only.yaml"
    read_only.write_text(f"services: {{init: {{volumes: ['./{folder}:/project/{folder}:ro']}}}}")
    lab.compose("rm -sf init agent")
    done = lab.play(f"docker compose -f docker-compose.yaml -f {read_only} up -d agent")
    assert done.returncode != 0
    [line] = lab.log("init")
    assert f"./{folder}" in line
    assert "agent" not in lab.alive()
