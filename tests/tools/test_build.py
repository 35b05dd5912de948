"""A release's version comes from its tag, and its workflow publishes only what was checked."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tools.build import VERSION_FILE, tagged_version, with_version

RELEASE = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
JOBS: dict[str, Any] = RELEASE["jobs"]


@pytest.mark.parametrize(
    ("tags", "version"),
    [
        ([], ""),
        (["v1.2.0"], "1.2.0"),
        (["nightly", "v1.2.0rc1"], "1.2.0rc1"),
        (["v1.2", "1.2.0", "v1.2.0-1"], ""),
    ],
)
def test_version_comes_from_tag(tags: list[str], version: str) -> None:
    assert tagged_version(tags) == version


def test_commit_has_one_version() -> None:
    with pytest.raises(ValueError, match="several versions"):
        tagged_version(["v1.2.0", "v1.3.0"])


def test_build_writes_version_file() -> None:
    text = with_version((ROOT / VERSION_FILE).read_text(encoding="utf-8"), "9.8.7")
    values: dict[str, str] = {}
    exec(text, values)
    assert values["__version__"] == "9.8.7"


def test_published_files_are_the_checked_ones() -> None:
    checked = JOBS["check"]
    assert any(step.get("run") == "make release-check" for step in checked["steps"])
    [artifact] = [
        step["with"]["name"] for step in checked["steps"] if "upload-artifact" in step.get("uses", "")
    ]
    for name in ("publish", "attest"):
        assert "check" in JOBS[name]["needs"]
        downloads = [step for step in JOBS[name]["steps"] if "download-artifact" in step.get("uses", "")]
        assert [step["with"]["name"] for step in downloads] == [artifact]
        assert not any("run" in step for step in JOBS[name]["steps"])


def test_publishing_needs_no_secret() -> None:
    assert JOBS["publish"]["permissions"] == {"id-token": "write"} and JOBS["publish"]["environment"]
    assert RELEASE["permissions"] == {"contents": "read"}
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"secrets\.\w+", text)) <= {"secrets.GITHUB_TOKEN"} and "password: pypi" not in text


def test_workflow_uses_targets_of_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    runs = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
    assert {word for run in runs for word in re.findall(r"^make ([a-z-]+)", run, re.MULTILINE)} <= targets
