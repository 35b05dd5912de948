"""What is built once for all of these tests."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package.installing import (
    CALM,
    TWO,
    Environment,
    build,
    empty_environment,
    install,
    lend_packages,
    run,
)
from tests.support import ROOT, required


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of sdist and wheel: the one that `make release-check` names, else newly built ones."""
    if named := os.environ.get("WINDTUNNEL_DIST"):
        return ROOT / named
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    [file] = dist.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel beside everything that it may need."""
    environment = empty_environment(tmp_path_factory.mktemp("installed"))
    install(environment, "--no-deps", str(wheel))
    lend_packages(environment)
    return environment


@dataclass(frozen=True)
class Flown:
    """A folder that was empty before a demo was flown there, and what the demo said."""

    folder: Path
    said: str


@pytest.fixture(scope="session")
def flown(installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> Flown:
    folder = tmp_path_factory.mktemp("flown")
    return Flown(folder, installed.flies(folder, "demo", *CALM, *TWO))


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips, or fails where it may not, if pip reaches no package index."""
    folder = tmp_path_factory.mktemp("index")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "click"]
    done = run([*command, "--retries", "0", "--timeout", "20"], folder)
    if done.returncode:
        reason = f"pip reaches no package index: {done.stderr.strip().splitlines()[-1]}"
        pytest.fail(reason) if required("index") else pytest.skip(reason)


@pytest.fixture(scope="session")
def index_at_length(index: None) -> None:
    """Skips what installs LangChain and all else anew, a minute of computing, unless it must run."""
    if not required("index"):
        pytest.skip("installs everything anew; `make release-check` runs it, and WINDTUNNEL_REQUIRE=index")


@pytest.fixture
def few(tmp_path: Path) -> str:
    """A prompts file with two of the samples: a question, and a message to send."""
    samples = json.loads((ROOT / "agent" / "prompts.json").read_text(encoding="utf-8"))
    file = tmp_path / "few.json"
    file.write_text(json.dumps(samples[:1] + samples[14:15]), encoding="utf-8")
    return str(file)
