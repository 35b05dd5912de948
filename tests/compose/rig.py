"""One Compose project in its own folder, like a user's: its commands, runs and leftovers."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compose.engine import (
    BUILD_PATIENCE_S,
    IMAGE,
    PATIENCE_S,
    PROJECT,
    ROOT,
    V2,
    base_images,
    docker,
    remove,
)
from tests.support import until
from wirefault.core.sockets import MANAGER_PORT, UI_PORT, Address
from wirefault.history.reader import LIVE, read_run
from wirefault.judging.summary import Summary, summarise
from wirefault.settings.settings import NAMES
from wirefault.settings.sources import INSTALLATION_VARIABLES
from wirefault.wiring.links import lab_links

SELDOM = {"patience": PATIENCE_S, "interval": 0.1}  # for `until`: each look asks the engine
# no fault, and no time limit that a busy machine breaks
CALM = {"TOXIC_PROB": "0", "ERROR_PROB": "0", "TOOL_TIMEOUT": "30", "ARM_TIMEOUT": "30"}
LONG_LIVED = ("toxiproxy", "gateway", "proxy_mgr", "ui", *(link.service for link in lab_links()))
ASK_TOXIPROXY = (
    "import urllib.request; print(urllib.request.urlopen('{url}/proxies', timeout=5).read().decode())"
)


def copy_clone(folder: Path) -> None:
    """Copy what a user's clone has: files that git tracks, and new ones that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def environment(name: str = "") -> dict[str, str]:
    """The user's environment without settings of the lab, plus variables that let two labs run on one
    machine. A ``name`` ends with a hyphen.
    """
    assert not name or name.endswith("-")
    own_variables = {
        key: value
        for key, value in os.environ.items()
        if key.lower() not in NAMES and key not in INSTALLATION_VARIABLES
    }
    return own_variables | {
        "COMPOSE_PROJECT_NAME": f"{PROJECT}{name}{os.getpid()}",
        "WIREFAULT_IMAGE": IMAGE,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@dataclass
class Lab:
    """The project: where it is, its environment, and the Compose that plays it."""

    folder: Path
    environ: dict[str, str]
    generation: tuple[str, ...]

    @property
    def project(self) -> str:
        return self.environ["COMPOSE_PROJECT_NAME"]

    # commands

    def play(self, line: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a line of the README with the installed Compose generation."""
        return subprocess.run(
            ["bash", "-c", self._spelled(line)],
            cwd=self.folder,
            env=self._variables() | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_PATIENCE_S,
        )

    def _variables(self) -> dict[str, str]:
        """The environment, in which Compose v2 starts and ends containers one after another.

        Engines of the 20.10 series count a network's endpoints apart from the endpoints. When containers join
        and leave the network at once the count can stay too high, and the network then cannot be removed:
        "has active endpoints" (moby issues 42119 and 43286). The older Compose takes no limit below 2.
        """
        return self.environ | ({"COMPOSE_PARALLEL_LIMIT": "1"} if self.generation == V2 else {})

    def _spelled(self, line: str) -> str:
        return line.replace("docker compose", " ".join(self.generation))

    def compose(self, line: str, **more: str) -> str:
        """Run ``docker compose LINE``, which must succeed; return its output."""
        done = self.play(f"docker compose {line}", **more)
        assert done.returncode == 0, f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def typed(self, line: str, output_file: Path, **more: str) -> Iterator[subprocess.Popen[str]]:
        """Run a line in the background until the block ends, its output into the file. The lab stays up."""
        with output_file.open("w") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {self._spelled(line)}"],
                cwd=self.folder,
                env=self._variables() | more,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                # the plugin too: left alone it would take the lab down in order
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_S)

    def up(self) -> None:
        """All that lives long, healthy, without a run of the agent."""
        if missing := sorted({"init", *LONG_LIVED} - self.alive()):
            self.compose(f"up -d {' '.join(missing)}")
        until(lambda: self.health("proxy_mgr") == "healthy", "a healthy manager", **SELDOM)

    def down(self) -> None:
        """Takes the lab down with whatever else the project has left on the engine."""
        self.play("docker compose --profile '*' down --volumes --remove-orphans --timeout 3")
        remove(self.project)

    # containers

    def containers(self, service: str = "") -> dict[str, dict[str, Any]]:
        """``docker inspect`` of the project's containers, by service; those of ``run`` are left out."""
        wanted = [f"label=com.docker.compose.project={self.project}", "label=com.docker.compose.oneoff=False"]
        if service:
            wanted.append(f"label=com.docker.compose.service={service}")
        ids = docker("ps", "-aq", *(word for label in wanted for word in ("--filter", label))).split()
        described = json.loads(docker("inspect", *ids, check=False)) if ids else []
        return {
            container["Config"]["Labels"]["com.docker.compose.service"]: container for container in described
        }

    def container(self, service: str) -> dict[str, Any]:
        return self.containers(service)[service]

    def alive(self) -> set[str]:
        """The services whose container runs."""
        return {service for service, container in self.containers().items() if container["State"]["Running"]}

    def health(self, service: str) -> str:
        return str(self.container(service)["State"].get("Health", {}).get("Status"))

    def wait(self, service: str = "agent") -> int:
        """The exit code of its container, once it has ended."""
        return int(docker("wait", self.container(service)["Id"]))

    def python(self, service: str, code: str) -> str:
        """The output of this code in the service's container."""
        return docker("exec", self.container(service)["Id"], "python", "-c", code)

    def log(self, service: str) -> list[str]:
        done = subprocess.run(
            ["docker", "logs", self.container(service)["Id"]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stdout.splitlines()

    def size_above_base(self) -> int:
        """Bytes of our image's layers above those of its base image."""
        images = (self.environ["WIREFAULT_IMAGE"], base_images()[0])
        ours, base = (int(docker("image", "inspect", "--format", "{{.Size}}", image)) for image in images)
        return ours - base

    def last_words(self) -> str:
        """The last lines of each service, for the message of a test that failed."""
        return "\n".join(
            f"--- {name}\n" + "\n".join(self.log(name)[-50:]) for name in sorted(self.containers())
        )

    def manager(self) -> Address:
        """Where the manager's port is published on this machine."""
        return Address.parse(self.compose(f"port proxy_mgr {MANAGER_PORT}").strip())

    def ui(self) -> Address:
        """Where the pages are published on this machine."""
        return Address.parse(self.compose(f"port ui {UI_PORT}").strip())

    def toxics(self) -> dict[str, list[Any]]:
        """Proxies with toxics, by Toxiproxy's own API, read from the manager's place."""
        variables = dict(word.split("=", 1) for word in self.container("proxy_mgr")["Config"]["Env"])
        code = ASK_TOXIPROXY.format(url=variables["TOXIPROXY_URL"])
        if "proxy_mgr" in self.alive():
            answer = self.python("proxy_mgr", code)
        else:
            answer = self.play(
                f"docker compose run --rm --no-deps proxy_mgr python -c {shlex.quote(code)}"
            ).stdout
        proxies = json.loads(answer)
        assert len(proxies) >= 8
        return {name: proxy["toxics"] for name, proxy in proxies.items() if proxy["toxics"]}

    def healed(self) -> None:
        until(lambda: not self.toxics(), "the last toxic to be gone", **SELDOM)

    # runs

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def prompts(self, *texts: str) -> None:
        """Write the prompts file (it is mounted), with the samples' oracles; without texts, all samples."""
        samples = json.loads((ROOT / "agent" / "prompts.json").read_text())
        known = {entry["prompt"]: entry for entry in samples}
        chosen = [known.get(text, {"prompt": text}) for text in texts] or samples
        (self.folder / "agent" / "prompts.json").write_text(json.dumps(chosen))

    def runs(self) -> list[str]:
        """The agent's runs, without live traffic."""
        names = (path.name for path in (self.logs / "runs").glob("*"))
        return sorted(name for name in names if not name.startswith(LIVE))

    def last_run(self) -> Summary:
        return summarise(read_run(self.logs, self.runs()[-1]))

    def rows(self, query: str, *values: Any, file: str = "state.db") -> list[tuple[Any, ...]]:
        database = sqlite3.connect(f"file:{self.folder / 'state' / file}?mode=ro", uri=True, timeout=10)
        with closing(database):
            return database.execute(query, values).fetchall()

    def wait_until_toxics_bite(self) -> None:
        """Until an attempt is under way under armed toxics."""
        query = (
            "SELECT id FROM attempts JOIN toxics ON attempt_id = id"
            " WHERE state = 'armed' AND attempts.armed_at > ?"
        )
        now = time.time()
        until(lambda: self.rows(query, now), "an attempt under toxics", **SELDOM)
