"""``windtunnel lab up|down|status``: a lab in the background, kept by a launcher of its own.

``python -m windtunnel.lab.daemon TOXIPROXY`` is that launcher. It restarts a manager that dies, and
takes the lab down when another part does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import requests

from windtunnel.config import LAB_FILE, Configuration, load_configuration, running_lab
from windtunnel.lab.launcher import READY_BOUND_S, Lab, LabError
from windtunnel.lab.process import python, start
from windtunnel.lab.toxiproxy import choose
from windtunnel.topology import Topology

Say = Callable[[str], None]
STOP_BOUND_S = 20.0


def up(configuration: Configuration, toxiproxy: str, say: Say) -> int:
    """Starts the launcher and waits until its lab is ready; exit code 0, or 1 with what went wrong."""
    state = configuration.state.parent
    present = running_lab(state)
    if present:
        say(
            f"a lab is up ({present['lab_id']}, process {present['pid']}); stop it with: windtunnel lab down"
        )
        return 1
    log = configuration.logs / "lab" / "launcher.log"
    log.unlink(missing_ok=True)
    launcher = start("launcher", python("windtunnel.lab.daemon", toxiproxy), configuration.environ, [], log)
    end = time.monotonic() + READY_BOUND_S + 5
    while launcher.poll() is None and not running_lab(state) and time.monotonic() < end:
        time.sleep(0.02)
    if not running_lab(state):
        launcher.stop()
        say(f"error: the lab did not start; its log is {log}\n{launcher.last_words()}")
        return 1
    if launcher.output:
        launcher.output.close()
    say("the lab is up. Send prompts through it with: python -m agent. Stop it with: windtunnel lab down")
    return 0


def down(configuration: Configuration, say: Say) -> int:
    """Asks the launcher to end and waits for it."""
    lab = running_lab(configuration.state.parent)
    if not lab:
        say("no lab is up")
        return 0
    os.kill(lab["pid"], signal.SIGTERM)
    end = time.monotonic() + STOP_BOUND_S
    while running_lab(configuration.state.parent):
        if time.monotonic() > end:
            say(
                f"error: launcher (process {lab['pid']}) does not end; kill it: its processes end with it"
            )
            return 1
        time.sleep(0.02)
    say(f"lab {lab['lab_id']} is down")
    return 0


def status(configuration: Configuration, say: Say) -> int:
    """What the lab's manager says of itself."""
    lab = running_lab(configuration.state.parent)
    if not lab:
        say("no lab is up; windtunnel lab up starts one")
        return 1
    topology = Topology.load(Path(lab["topology"]))
    say(f"lab {lab['lab_id']}, launcher process {lab['pid']}")
    for name, pid in lab["processes"].items():
        say(f"  {name:<10} process {pid}")
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(topology.manager.url + "/status", timeout=5).json()
    except (requests.RequestException, ValueError) as error:
        say(f"error: the manager at {topology.manager} does not answer: {error}")
        return 1
    say(json.dumps(answer, indent=2))
    return 0


def keep(toxiproxy: str) -> int:
    """The launcher itself: keeps the lab until SIGTERM, or until a part is lost that cannot be replaced."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    configuration = load_configuration(os.environ)
    lab_file = configuration.state.parent / LAB_FILE
    try:
        with Lab(configuration, choose(toxiproxy, configuration.environ), stop.is_set) as lab:
            try:
                _publish(lab, lab_file, configuration)
                while not stop.wait(0.05):
                    if lab.dead() == ["manager"]:
                        tell("the manager ended; starting its successor, which heals first")
                        lab.start_manager()
                        _publish(lab, lab_file, configuration)
                    lab.check()
            finally:
                lab_file.unlink(missing_ok=True)
    except LabError as error:
        tell(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _publish(lab: Lab, path: Path, configuration: Configuration) -> None:
    content = {
        "pid": os.getpid(),
        "lab_id": lab.topology.lab_id,
        "topology": str(configuration.state.parent.resolve() / f"{lab.topology.lab_id}.json"),
        "processes": lab.pids(),
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(path)


def tell(message: str) -> None:
    sys.stderr.write(message + "\n")


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1] if len(sys.argv) > 1 else "auto"))
