"""``wirefault lab up|down|status``: a lab in the background, kept by its own launcher.

``python -m wirefault.lab.daemon TOXIPROXY`` is that launcher. It restarts a manager that dies, and takes the
lab down when another part dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wirefault.core.errors import LAB_FAILED, UserError, error_text
from wirefault.core.files import remove_shared
from wirefault.core.interrupts import INTERRUPTED, SignalFlag
from wirefault.core.lab_folder import LabIsUp, hold_lab_lock, is_lab_up, remove_lab_record, write_lab_record
from wirefault.core.processes import process_identity, signal_if_same
from wirefault.lab.launcher import READY_BOUND_S, Lab, answers, local_session
from wirefault.lab.process import LabError, Process, ProcessLog, interruptible, print_to_stderr, python, start
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy
from wirefault.settings.configuration import Configuration, load_configuration, running_lab
from wirefault.settings.settings import SettingsError
from wirefault.wiring.topology import Topology

_Say = Callable[[str], None]
_STOP_BOUND_S = 20.0


def bring_up(configuration: Configuration, toxiproxy: str, say: _Say) -> int:
    """Start the launcher and wait until its lab is ready.

    Exit code 0, 70 with an error message, or 130 after Ctrl-C, when no lab is up.
    """
    with interruptible() as interrupted:
        return _bring_up(configuration, toxiproxy, say, interrupted)


def _bring_up(configuration: Configuration, toxiproxy: str, say: _Say, interrupted: SignalFlag) -> int:
    state = configuration.state.parent
    if is_lab_up(state):
        return _refuse_second_lab(state, say)
    log = ProcessLog(configuration.logs, configuration.logs / "lab" / "launcher.log")
    command = python("wirefault.lab.daemon", toxiproxy)
    try:
        remove_shared(log.root, log.path)
        launcher = start("launcher", command, configuration.environ, [], log)
    except OSError as error:
        say(f"error: the lab could not start: {error_text(error)}")
        return LAB_FAILED
    if not _wait_until_up(launcher, state, interrupted):
        launcher.stop()
        if interrupted.is_set():
            say("interrupted; no lab is up")
            return INTERRUPTED
        if is_lab_up(state):
            return _refuse_second_lab(state, say)
        say(f"error: the lab did not start; its log is {log.path}\n{launcher.last_words()}")
        return LAB_FAILED
    if launcher.output:
        launcher.output.close()
    say("the lab is up. Send prompts through it with: wirefault run --lab. Stop it with: wirefault lab down")
    return 0


def _refuse_second_lab(state: Path, say: _Say) -> int:
    present = running_lab(state)
    which = f" ({present['lab_id']}, process {present['pid']})" if present else ""
    say(f"a lab is up{which}; stop it with: wirefault lab down")
    return LAB_FAILED


def _wait_until_up(launcher: Process, state: Path, interrupted: SignalFlag) -> bool:
    end = time.monotonic() + READY_BOUND_S + 5
    while launcher.poll() is None and time.monotonic() < end and not interrupted.is_set():
        lab = running_lab(state)
        if lab and lab["pid"] == launcher.child.pid:
            return True
        time.sleep(0.02)
    return False


def take_down(configuration: Configuration, say: _Say) -> int:
    """Stop the launcher and wait for it; exit code 0, or 70 if it does not end."""
    state = configuration.state.parent
    lab = running_lab(state)
    if not lab:
        say("no lab is up")
        return 0
    if not lab["identity"]:  # no /proc: running_lab found the launcher's lock
        os.kill(lab["pid"], signal.SIGTERM)
    elif not signal_if_same(lab["pid"], lab["identity"], signal.SIGTERM):
        say(f"error: process {lab['pid']} is not the launcher of lab {lab['lab_id']}")
        return LAB_FAILED
    end = time.monotonic() + _STOP_BOUND_S
    while is_lab_up(state):
        if time.monotonic() > end:
            say(f"error: launcher (process {lab['pid']}) does not end; kill it: its processes end with it")
            return LAB_FAILED
        time.sleep(0.02)
    say(f"lab {lab['lab_id']} is down")
    return 0


def print_status(configuration: Configuration, say: _Say) -> int:
    """Show the lab's processes and its manager's status; exit code 0, or 70 if no lab is ready."""
    lab = running_lab(configuration.state.parent)
    if not lab:
        say("no lab is up; wirefault lab up starts one")
        return LAB_FAILED
    say(f"lab {lab['lab_id']}, launcher process {lab['pid']}")
    for name, pid in lab["processes"].items():
        say(f"  {name:<10} process {pid}")
    try:
        topology = Topology.load(Path(lab["topology"]))
        with local_session() as session:
            answer = session.get(topology.manager.url + "/status", timeout=5).json()
    except (OSError, ValueError) as error:  # requests' errors are OSErrors
        say(f"error: the manager does not answer: {error}")
        return LAB_FAILED
    silent = _silent_servers(topology)
    if silent and answer["ready"]:
        answer |= {"ready": False, "error": f"no answer from {', '.join(silent)}"}
    say(json.dumps(answer, indent=2))
    return 0 if answer["ready"] else LAB_FAILED


def _silent_servers(topology: Topology) -> list[str]:
    """The lab's servers behind the gateway, and Toxiproxy, that do not answer now."""
    urls = {f"the service of {name}": address.url + "/" for name, address in topology.services.items()}
    urls["Toxiproxy"] = topology.toxiproxy + "/version"

    def is_silent(url: str) -> bool:
        with local_session() as session:
            return not answers(session, url)

    with ThreadPoolExecutor(len(urls)) as pool:
        silent = pool.map(is_silent, urls.values())
        return [name for name, is_silent_ in zip(urls, silent, strict=True) if is_silent_]


def keep_lab(toxiproxy: str) -> int:
    """Run the launcher until SIGTERM, or until a part dies that cannot be replaced."""
    stop = SignalFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.set)
    try:
        configuration = load_configuration(os.environ)
        choice = choose_toxiproxy(toxiproxy, configuration.environ)
        with hold_lab_lock(configuration.state.parent):
            _keep(configuration, choice, stop)
    except (LabError, SettingsError, LabIsUp, UserError) as error:
        print_to_stderr(f"error: {error}")
        return LAB_FAILED
    except OSError as error:
        print_to_stderr(f"error: {error_text(error)}")
        return LAB_FAILED
    except KeyboardInterrupt:  # stopped before it was ready
        return 0
    return 0


def _keep(configuration: Configuration, choice: Choice, stop: SignalFlag) -> None:
    state = configuration.state.parent
    remove_lab_record(state)  # of a launcher that was killed
    with Lab(configuration, choice, stop.is_set) as lab:
        try:
            _publish(lab, state)
            while not stop.is_set():
                time.sleep(0.05)
                dead = lab.dead()
                if dead == ["manager"]:
                    print_to_stderr("the manager ended; starting its successor, which heals first")
                    lab.restart_manager()
                    _publish(lab, state)
                elif dead:
                    lab.check()
        finally:
            remove_lab_record(state)


def _publish(lab: Lab, state: Path) -> None:
    record = {
        "pid": os.getpid(),
        "identity": process_identity(os.getpid()),
        "lab_id": lab.topology.lab_id,
        "topology": str(lab.topology_path),
        "token": lab.token,
        "processes": lab.pids(),
    }
    write_lab_record(state, record)


if __name__ == "__main__":
    sys.exit(keep_lab(sys.argv[1] if len(sys.argv) > 1 else "auto"))
