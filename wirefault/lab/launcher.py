"""Start a lab, wait until it is ready, watch it and take it down."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import requests

from wirefault.core.control_access import TOKEN_DESCRIPTOR, draw_token, token_descriptor
from wirefault.core.errors import resource_problem
from wirefault.core.files import make_output_folder, private_folder, remove_empty_logs, write_whole
from wirefault.core.private_files import LabFiles
from wirefault.core.processes import (
    LIFELINE_VARIABLE,
    TOPOLOGY_VARIABLE,
    has_proc,
    reason_file,
)
from wirefault.core.sockets import SOCKETS_VARIABLE, Address, bound_address
from wirefault.lab import toxiproxy
from wirefault.lab.addresses import Sockets, bind_lane, bind_services, bind_toxiproxy, lanes_with
from wirefault.lab.forking import ForkServer, fork_server
from wirefault.lab.process import (
    Fork,
    LabError,
    LabProcesses,
    Process,
    ProcessLog,
    cannot_fork,
    python,
    start,
)
from wirefault.settings.configuration import Configuration, without_keys
from wirefault.subjects.loading import is_lab_subject
from wirefault.wiring.links import LAB, SCRIPTED
from wirefault.wiring.topology import Topology, default_topology, draw_lab_id, topology_file

# generous, for a busy machine: a process that ends is noticed at once
READY_BOUND_S = 60.0
# a connection is accepted before its process runs; Ctrl-C waits this long for the request
_POLL_BOUND_S = 0.5


def wait_until(
    poll: Callable[[], bool | None],
    check: Callable[[], None],
    cancelled: Callable[[], bool],
    complaint: Callable[[], str] = str,
) -> bool:
    """Poll until there is an answer; ``check`` raises ``LabError`` if a process has ended.

    Raises ``LabError`` after the time limit, with the ``complaint``, and ``KeyboardInterrupt`` once
    ``cancelled``.
    """
    end = time.monotonic() + READY_BOUND_S
    while (answer := poll()) is None:
        check()
        if cancelled():
            raise KeyboardInterrupt
        if time.monotonic() > end:
            reason = complaint()
            raise LabError(
                f"the lab is not ready after {READY_BOUND_S:.0f} s{': ' if reason else ''}{reason}"
            )
        time.sleep(0.01)
    return answer


def local_session() -> requests.Session:
    """A session without proxies from the environment."""
    session = requests.Session()
    session.trust_env = False
    return session


def answers(session: requests.Session, url: str) -> bool:
    """Whether the URL answers with status 200."""
    try:
        return session.get(url, timeout=_POLL_BOUND_S).status_code == 200
    except requests.RequestException:
        return False


def complaint_of(session: requests.Session, url: str) -> str:
    """Why the URL does not answer with 200; empty if it does."""
    try:
        reply = session.get(url, timeout=_POLL_BOUND_S)
        error = reply.json()["error"] if reply.status_code != 200 else None
    except requests.ConnectionError:
        return f"no answer at {url}"
    except (requests.RequestException, ValueError, LookupError, TypeError):
        return f"no valid answer from {url}"
    return f"{url} says: {error}" if error else ""


def proxies_of(session: requests.Session, manager: Address) -> dict[str, Address] | None:
    """The addresses of the manager's proxies by link; None until it reports them."""
    try:
        status = session.get(manager.url + "/status", timeout=_POLL_BOUND_S * 2).json()
    except (requests.RequestException, ValueError):
        return None
    return {link: Address.parse(text) for link, text in status["proxies"].items()}


_OWN_TOXIPROXY_TRIES = 5


class Lab:
    """A native lab on loopback, as a context manager that always takes it down.

    Each of its ``lanes`` has its own proxies, gateway and manager; services and Toxiproxy are shared.
    ``run_imports``: runs are forked, too, from a process that has imported these modules.
    """

    def __init__(
        self,
        configuration: Configuration,
        choice: toxiproxy.Choice,
        cancelled: Callable[[], bool] = lambda: False,
        lanes: int = 1,
        run_imports: Sequence[str] = (),
    ) -> None:
        self._cancelled = cancelled
        self._run_imports = run_imports
        self._configuration = configuration
        self._toxiproxy = choice
        self._processes = LabProcesses()
        self._fork_server: ForkServer | None = None
        self._sockets: Sockets = {}
        self.lifeline_end, self._lifeline = os.pipe()
        # shown to the control APIs by processes of the lab that inherit it
        self.token = draw_token()
        self._token_descriptor = token_descriptor(self.token)
        wiring, lab_id = configuration.wiring, draw_lab_id()
        self.lanes = [
            default_topology(lab_id, lane, configuration.ports, wiring.links).with_wiring(wiring)
            for lane in range(lanes)
        ]
        # private: these files connect the lab's processes
        self._folder = private_folder().resolve()
        self._files = LabFiles(lab_id)
        self.logs = configuration.logs / "lab" / lab_id

    @property
    def topology(self) -> Topology:
        """Topology of lane 0."""
        return self.lanes[0]

    @property
    def state(self) -> Path:
        """The database of attempts and their toxics."""
        return self._configuration.state

    @property
    def topology_path(self) -> Path:
        """The topology file for the processes of lane 0."""
        return self._path_of(0)

    @property
    def shared_logs(self) -> Path:
        """The folder of all logs, in which the runs' histories are."""
        return self._configuration.logs

    def key_secret(self, subject: str) -> str:
        """The secret from which the run's key derives; empty if the subject is not the lab's own agent."""
        return self.token if is_lab_subject(subject, self._configuration.wiring) else ""

    def private_file(self, name: str) -> Path:
        """A file of the lab in the private folder, which is removed with the lab."""
        return self._folder / f"{self.topology.lab_id}-{name}"

    def run_document_path(self, run_id: str) -> Path:
        """The file with the instructions for a run's process."""
        return self._folder / f"{self.topology.lab_id}-{run_id}.run.json"

    def _path_of(self, lane: int) -> Path:
        return topology_file(self._folder, self.topology.lab_id, lane)

    def _dump(self) -> None:
        for topology in self.lanes:
            topology.dump(self._path_of(topology.lane))

    def __enter__(self) -> Lab:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # starting

    def _start(self) -> None:
        url = self._toxiproxy.url
        if url and not toxiproxy.toxiproxy_answers(url):
            raise LabError(
                f"no Toxiproxy answers at {url}; start it, or leave out --toxiproxy and TOXIPROXY_URL"
            )
        if not self._configuration.wiring.is_lab and sys.platform == "linux" and not has_proc():
            raise LabError(
                "/proc is not mounted, and without it the lab cannot find an agent's processes:"
                " mount -t proc proc /proc"
            )
        self._bind()
        self._files.take()
        make_output_folder(self._configuration.state.parent)
        self._dump()
        self._fork_server = fork_server(without_keys(self.environ()), self._log("fork_server"))
        self._start_processes()
        if self._fork_server and self._run_imports:
            self._fork_server.prepare(self._run_imports)
        else:
            self._close_fork_server()
        for lane, name in self._sockets:
            if name != "manager":  # kept open for the manager's successor
                self._sockets[
                    lane, name
                ].close()  # its process has it: if that dies, the port refuses connections
        self._wait_until_ready()

    def _start_processes(self) -> None:
        if self._toxiproxy.kind == "embedded":
            self._spawn("toxiproxy", python("wirefault.toxiproxy.embedded"), ["toxiproxy"])
        links = self.topology.links
        tools = [link for link in links if link.upstream == LAB]
        if tools:
            names = [link.name for link in tools]
            self._spawn("tools", python("flask_tools", *names), [link.service for link in tools])
        if (0, SCRIPTED) in self._sockets:
            self._spawn("model", python("wirefault.model_server"), [SCRIPTED])
        gateways = [f"gateway_{name}" for name in links.names]
        for lane in range(len(self.lanes)):
            self._spawn("gateway", python("wirefault.gateway"), [*gateways, "control", "egress"], lane)
            if self.lanes[lane].ingress is not None:
                self._spawn("ingress", python("wirefault.gateway.intercept"), ["ingress"], lane)
        if self._toxiproxy.kind == "executable":
            self._start_own_toxiproxy()
        for lane in range(len(self.lanes)):
            self._spawn("manager", python("proxy_manager"), ["manager"], lane)

    def _bind(self) -> None:
        shared = self._toxiproxy.kind == "url"
        self._sockets, services = bind_services(self.topology)
        for lane, topology in enumerate(self.lanes):
            sockets, self.lanes[lane] = bind_lane(topology)
            self._sockets |= sockets
        url, prefix = self._toxiproxy.url, f"{self.topology.lab_id}_"
        if not shared:
            usual = Address.parse(self.topology.toxiproxy.partition("://")[2])
            sockets, url = bind_toxiproxy(usual)
            self._sockets |= sockets
        self.lanes = lanes_with(self.lanes, services, url, prefix if shared else "")

    @property
    def fork(self) -> Fork:
        """Forks a program of this lab, if it can."""
        return self._fork_server.fork if self._fork_server else cannot_fork

    def _close_fork_server(self) -> None:
        server, self._fork_server = self._fork_server, None
        if server:
            server.close()

    def _start_own_toxiproxy(self) -> None:
        """Start the real server on a port that is held until just before, since it takes no socket.

        Another program may take the port in between and answer, so the answer must have our mark.
        """
        mark, path = f"{self.topology.lab_id}_mark", self.topology_path.with_suffix(".mark")
        try:
            toxiproxy.write_mark(path, mark)
            for _ in range(_OWN_TOXIPROXY_TRIES):
                listener = self._sockets.pop((0, "toxiproxy"))
                address = bound_address(listener)
                listener.close()
                server = toxiproxy.server_command(self._toxiproxy.executable, address, path)
                self._spawn("toxiproxy", python("wirefault.lab.die_with_parent", *server), [])
                if self._wait_until(partial(toxiproxy.has_mark, address.url, mark)):
                    return
                self._end("toxiproxy")
                sockets, url = bind_toxiproxy()
                self._sockets |= sockets
                self.lanes = lanes_with(self.lanes, self.topology, url, "")
                self._dump()
        finally:
            path.unlink(missing_ok=True)
        raise LabError(f"{self._toxiproxy.executable} found no free port in {_OWN_TOXIPROXY_TRIES} tries")

    def restart_manager(self, lane: int = 0) -> None:
        """Start a new manager and wait until it has healed. Raises ``LabError``."""
        self._end(_name_of("manager", lane))
        self._spawn("manager", python("proxy_manager"), ["manager"], lane)
        with local_session() as session:
            ready = self.lanes[lane].manager.url + "/ready"
            self._wait_until(lambda: answers(session, ready) or None, lambda: complaint_of(session, ready))

    def _wait_until(self, poll: Callable[[], bool | None], complaint: Callable[[], str] = str) -> bool:
        return wait_until(poll, self.check, self._cancelled, complaint)

    def _end(self, name: str) -> None:
        process = self._processes.take(name)
        if process is not None:
            process.stop()

    def _spawn(self, name: str, command: list[str], sockets: list[str], lane: int = 0) -> None:
        handed = {key: self._sockets[lane, key].fileno() for key in sockets if self._open((lane, key))}
        environ = self.environ({SOCKETS_VARIABLE: json.dumps(handed)}, lane)
        if name == "ingress":  # the ingress carries all connections and needs no keys
            environ = without_keys(environ)
        if name == "model":  # default for requests whose model names no persona
            environ["PERSONA"] = self._configuration.settings.persona
        descriptors = [*handed.values(), self.lifeline_end]
        if name in ("gateway", "ingress", "manager"):
            environ[TOKEN_DESCRIPTOR] = str(self._token_descriptor)
            descriptors.append(self._token_descriptor)
        name = _name_of(name, lane)
        self._processes.add(start(name, command, environ, descriptors, self._log(name), self.fork))

    def _log(self, name: str) -> ProcessLog:
        return ProcessLog(self._configuration.logs, self.logs / f"{name}.log")

    def _open(self, key: tuple[int, str]) -> bool:
        return key in self._sockets and self._sockets[key].fileno() >= 0

    def environ(self, more: Mapping[str, str] | None = None, lane: int = 0) -> dict[str, str]:
        """The environment for processes of that lane."""
        configuration = self._configuration
        return {
            **configuration.environ,
            LIFELINE_VARIABLE: str(self.lifeline_end),
            TOPOLOGY_VARIABLE: str(self._path_of(lane)),
            "LAB_ID": self.topology.lab_id,
            "STATE_DB": str(configuration.state),
            "EFFECTS_DB": str(configuration.effects),
            "LOGS_DIR": str(configuration.logs),
            **(more or {}),
        }

    def _wait_until_ready(self) -> None:
        waiting = [address.url + "/" for address in self.topology.services.values()]
        for lane in self.lanes:
            waiting += [lane.control.url + "/", lane.manager.url + "/ready"]

        def all_answer() -> bool | None:
            while waiting:
                problem = complaint_of(session, waiting[0])
                if full := resource_problem(problem, str(self._configuration.state)):
                    raise LabError(full)
                if problem:
                    return None
                waiting.pop(0)
            return self._publish_proxies(session)

        with local_session() as session:
            self._wait_until(all_answer, lambda: complaint_of(session, waiting[0]) if waiting else "")

    def _publish_proxies(self, session: requests.Session) -> bool | None:
        for lane, topology in enumerate(self.lanes):
            proxies = proxies_of(session, topology.manager)
            if proxies is None:
                return None
            self.lanes[lane] = topology.with_proxies(proxies)
        self._dump()
        return True

    # watching and stopping

    def check(self) -> None:
        """Raise ``LabError`` if a process has ended."""
        self._processes.check()

    def leave_reason(self, lost: LabError) -> None:
        """Write why the processes are about to end."""
        self.tell(reason_file, lost.reason)

    def tell(self, file_of: Callable[[Path], Path], why: str) -> None:
        """Write the reason next to each lane's topology, where its processes look for it."""
        with suppress(OSError):  # a full disk: they end without a reason
            for lane in range(len(self.lanes)):
                write_whole(file_of(self._path_of(lane)), why.encode())

    def dead(self) -> list[str]:
        return self._processes.dead()

    def pids(self) -> dict[str, int]:
        return self._processes.pids()

    def stop(self) -> None:
        """Heal, stop all processes and remove the lab's files. Can be called twice."""
        self._close_fork_server()
        for lane in range(len(self.lanes)):
            manager = self._processes.take(_name_of("manager", lane))
            if manager is not None:
                clean = manager.poll() is None
                manager.stop()
                if not (clean and manager.child.returncode == 0):
                    self._heal_for(manager, lane)
        self._processes.stop()
        for listener in self._sockets.values():
            listener.close()
        for descriptor in (self._lifeline, self.lifeline_end, self._token_descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._lifeline = self.lifeline_end = self._token_descriptor = -1
        self._files.remove()
        remove_empty_logs(self._configuration.logs, self.logs)

    def _heal_for(self, manager: Process, lane: int) -> None:
        """Heal a shared server instead of the manager; the lab's own server simply ends."""
        if self._toxiproxy.kind != "url" or not self._path_of(lane).exists():
            return
        healer = start(
            "heal",
            python("proxy_manager", "--heal"),
            self.environ(lane=lane),
            [self.lifeline_end],
            manager.log,
        )
        healer.wait(10)
        healer.stop()


def _name_of(process: str, lane: int) -> str:
    return f"{process}-{lane}" if lane else process
