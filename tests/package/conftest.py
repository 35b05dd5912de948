"""Built once for all of these tests."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package.installing import (
    CALM,
    PACKAGES,
    TWO,
    Environment,
    empty_environment,
    install,
    lend_packages,
)
from tests.support import ROOT, made_once, required
from tools.build import build


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of sdist and wheel: the one from `make release-check`, else newly built ones."""
    if named := os.environ.get("WIREFAULT_DIST"):
        return ROOT / named
    return made_once("dist", build, tmp_path_factory)


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    [file] = dist.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with everything that it may need; its tests are a twentieth of all tests."""
    if not required("wheel"):
        pytest.skip("runs the installed wheel; `make release-check` does")
    environment = empty_environment(tmp_path_factory.mktemp("installed"))
    install(environment, "--no-deps", str(wheel))
    lend_packages(environment, PACKAGES)
    return environment


@dataclass(frozen=True)
class FirstRun:
    """A folder in which a demo ran first, and the demo's output."""

    folder: Path
    output: str


@pytest.fixture(scope="session")
def first_run(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    folder = tmp_path_factory.mktemp("first-run")
    return FirstRun(folder, installed.must_run(folder, "demo", *CALM, *TWO))


@pytest.fixture(scope="session")
def index() -> None:
    """Skip an installation from a package index, which takes a minute or more, unless it is required."""
    if not required("index"):
        pytest.skip("installs all that it needs anew; `make release-check` runs it")


@pytest.fixture
def few(tmp_path: Path) -> str:
    """A prompts file with two of the samples: a question, and a message to send."""
    samples = json.loads((ROOT / "agent" / "prompts.json").read_text(encoding="utf-8"))
    file = tmp_path / "few.json"
    file.write_text(json.dumps(samples[:1] + samples[14:15]), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="session")
def core(index: None, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without extras, from a package index. No test installs anything else there."""
    environment = empty_environment(tmp_path_factory.mktemp("core"))
    install(environment, str(wheel))
    return environment
