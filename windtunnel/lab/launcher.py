"""Starts a lab: binds its sockets, starts its processes, waits until they are ready, and takes it down."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import requests

from windtunnel.core.lifeline import LIFELINE_VARIABLE, TOPOLOGY_VARIABLE, reason_file
from windtunnel.core.private_files import make_private_folder, private_folder
from windtunnel.core.shared_files import remove_empty_logs
from windtunnel.core.sockets import LOOPBACK, SOCKETS_VARIABLE, Address, address_of, bind_or_replace
from windtunnel.lab import toxiproxy
from windtunnel.lab.process import Process, ProcessLog, end_group, python, start
from windtunnel.links.link import LAB, SCRIPTED
from windtunnel.links.topology import default_topology, draw_lab_id
from windtunnel.settings.configuration import Configuration

# patience for a busy machine: a process that ends is noticed at once
READY_BOUND_S = 60.0
_OWN_TOXIPROXY_TRIES = 5
# the system accepts a connection before its process runs: until then Ctrl-C waits for the question to end
_POLL_BOUND_S = 0.5


class LabError(Exception):
    """The lab could not start or lost a part, as ``reason`` says; the message shows its last words too."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason + details)
        self.reason = reason


class Lab:
    """A native lab on loopback. Use as a context manager: it is down again whatever happens."""

    def __init__(
        self,
        configuration: Configuration,
        choice: toxiproxy.Choice,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._cancelled = cancelled
        self._configuration = configuration
        self._toxiproxy = choice
        self._processes: dict[str, Process] = {}
        self._sockets: dict[str, socket.socket] = {}
        self.lifeline_end, self._lifeline = os.pipe()
        wiring = configuration.wiring
        self.topology = replace(
            default_topology(draw_lab_id(), ports=configuration.ports, links=wiring.links),
            wiring=wiring.dump(),
        )
        # what leads the lab's processes to one another is nobody else's to write
        self.topology_path = private_folder().resolve() / f"{self.topology.lab_id}.json"
        self.logs = configuration.logs / "lab" / self.topology.lab_id

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
        self._bind()
        make_private_folder()
        self._configuration.state.parent.mkdir(parents=True, exist_ok=True)
        self.topology.dump(self.topology_path)
        if self._toxiproxy.kind == "embedded":
            self._spawn("toxiproxy", python("windtunnel.toxiproxy.embedded"), ["toxiproxy"])
        links = self.topology.links
        tools = [link for link in links if link.upstream == LAB]
        if tools:
            names = [link.name for link in tools]
            self._spawn("tools", python("flask_tools", *names), [link.service for link in tools])
        if any(link.upstream == SCRIPTED for link in links):
            self._spawn("model", python("windtunnel.model_server"), [SCRIPTED])
        gateways = [f"gateway_{name}" for name in links.names]
        self._spawn("gateway", python("windtunnel.gateway"), [*gateways, "control"])
        if self._toxiproxy.kind == "executable":
            self._start_own_toxiproxy()
        self._spawn("manager", python("proxy_manager"), ["manager"])
        for name in self._sockets.keys() - {"manager"}:  # kept open for the manager's successor
            self._sockets[name].close()  # its process holds it: when that is dead, the port refuses
        self._wait_until_ready()

    def _bind(self) -> None:
        topology = self.topology
        # one server is the scripted model of every link that leads to one
        server = {
            link.name: SCRIPTED if link.upstream == SCRIPTED else link.service for link in topology.links
        }
        addresses: dict[str, Address] = {}
        for name, address in topology.services.items():
            addresses.setdefault(server[name], address)
        addresses |= {f"gateway_{name}": address for name, address in topology.gateways.items()}
        addresses |= {"control": topology.control, "manager": topology.manager}
        if self._toxiproxy.kind != "url":
            addresses["toxiproxy"] = Address(LOOPBACK, int(topology.toxiproxy.rpartition(":")[2]))
        for name, address in addresses.items():
            self._sockets[name] = bind_or_replace(address)
        at = {name: address_of(listener) for name, listener in self._sockets.items()}
        shared = self._toxiproxy.kind == "url"
        self.topology = replace(
            topology,
            services={name: at[server[name]] for name in topology.services},
            gateways={name: at[f"gateway_{name}"] for name in topology.gateways},
            control=at["control"],
            manager=at["manager"],
            toxiproxy=self._toxiproxy.url if shared else at["toxiproxy"].url,
            proxy_prefix=f"{topology.lab_id}_" if shared else "",
        )

    def _start_own_toxiproxy(self) -> None:
        """Starts the real server on a port that is held until just before, since it can be handed no socket.

        Another program may still take the port in between. The server then runs without listening and the
        other one answers there: so the one that answers must show our mark.
        """
        mark, path = f"{self.topology.lab_id}_mark", self.topology_path.with_suffix(".mark")
        try:
            toxiproxy.write_mark(path, mark)
            for _ in range(_OWN_TOXIPROXY_TRIES):
                listener = self._sockets.pop("toxiproxy")
                address = address_of(listener)
                listener.close()
                server = toxiproxy.server_command(self._toxiproxy.executable, address, path)
                self._spawn("toxiproxy", python("windtunnel.lab.die_with_parent", *server), [])
                if self._wait_for(partial(toxiproxy.has_mark, address.url, mark)):
                    return
                self._processes.pop("toxiproxy").stop()
                self._sockets["toxiproxy"] = bind_or_replace(Address(LOOPBACK, 0))
                self.topology = replace(self.topology, toxiproxy=address_of(self._sockets["toxiproxy"]).url)
                self.topology.dump(self.topology_path)
        finally:
            path.unlink(missing_ok=True)
        raise LabError(f"{self._toxiproxy.executable} found no free port in {_OWN_TOXIPROXY_TRIES} tries")

    def restart_manager(self) -> None:
        """Starts the successor of a manager that ended and waits until it has healed. Raises ``LabError``."""
        self._processes.pop("manager").stop()
        self._spawn("manager", python("proxy_manager"), ["manager"])
        with _session() as session:
            self._wait_for(lambda: _answers(session, self.topology.manager.url + "/ready") or None)

    def _wait_for(self, poll: Callable[[], bool | None]) -> bool:
        """Calls ``poll`` until it answers. Raises ``LabError`` if a process ends, or if it takes too long."""
        end = time.monotonic() + READY_BOUND_S
        while (answer := poll()) is None:
            self.check()
            if self._cancelled():
                raise KeyboardInterrupt
            if time.monotonic() > end:
                raise LabError(f"the lab is not ready after {READY_BOUND_S:.0f} s")
            time.sleep(0.01)
        return answer

    def _spawn(self, name: str, command: list[str], sockets: list[str]) -> None:
        handed = {key: self._sockets[key].fileno() for key in sockets if self._open(key)}
        environ = self.environ({SOCKETS_VARIABLE: json.dumps(handed)})
        descriptors = [*handed.values(), self.lifeline_end]
        log = ProcessLog(self._configuration.logs, self.logs / f"{name}.log")
        self._processes[name] = start(name, command, environ, descriptors, log)

    def _open(self, name: str) -> bool:
        return name in self._sockets and self._sockets[name].fileno() >= 0

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of the lab's processes."""
        configuration = self._configuration
        return {
            **configuration.environ,
            LIFELINE_VARIABLE: str(self.lifeline_end),
            TOPOLOGY_VARIABLE: str(self.topology_path),
            "LAB_ID": self.topology.lab_id,
            "STATE_DB": str(configuration.state),
            "EFFECTS_DB": str(configuration.effects),
            "LOGS_DIR": str(configuration.logs),
            **(more or {}),
        }

    def _wait_until_ready(self) -> None:
        topology = self.topology
        waiting = [address.url + "/" for address in topology.services.values()]
        waiting += [topology.control.url + "/", topology.manager.url + "/ready"]

        def all_answer() -> bool | None:
            while waiting and _answers(session, waiting[0]):
                waiting.pop(0)
            return None if waiting else self._publish_proxies(session)

        with _session() as session:
            self._wait_for(all_answer)

    def _publish_proxies(self, session: requests.Session) -> bool | None:
        try:
            status = session.get(self.topology.manager.url + "/status", timeout=_POLL_BOUND_S * 2).json()
        except (requests.RequestException, ValueError):
            return None
        proxies = {link: Address.parse(text) for link, text in status["proxies"].items()}
        self.topology = self.topology.with_proxies(proxies)
        self.topology.dump(self.topology_path)
        return True

    # watching and stopping

    def check(self) -> None:
        """Raises ``LabError`` when a process of the lab has ended."""
        for process in self._processes.values():
            code = process.poll()
            if code is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                words = process.last_words()
                log = f"; its log is {process.log.path}" if process.log else ""
                raise LabError(f"{process.name} {how}", log + (f"\n{words}" if words else ""))

    def leave_reason(self, lost: LabError) -> None:
        """Writes why the processes are about to be ended, for those that record it."""
        with suppress(OSError):  # a full disk: they are ended without a reason
            reason_file(self.topology_path).write_text(lost.reason, encoding="utf-8")

    def dead(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def pids(self) -> dict[str, int]:
        return {name: process.popen.pid for name, process in self._processes.items()}

    def stop(self) -> None:
        """Heals, stops every process, and removes what was only for this lab. Can be called twice."""
        manager = self._processes.pop("manager", None)
        if manager is not None:
            clean = manager.poll() is None
            manager.stop()
            if not (clean and manager.popen.returncode == 0):
                self._heal_for(manager)
        for process in self._processes.values():
            process.signal(signal.SIGTERM)  # all at once: none of them waits for another to end
        while self._processes:
            _, process = self._processes.popitem()
            process.stop()
            end_group(process)
        for listener in self._sockets.values():
            listener.close()
        for descriptor in (self._lifeline, self.lifeline_end):
            if descriptor >= 0:
                os.close(descriptor)
        self._lifeline = self.lifeline_end = -1
        for path in (self.topology_path, reason_file(self.topology_path)):
            path.unlink(missing_ok=True)
        remove_empty_logs(self._configuration.logs, self.logs)

    def _heal_for(self, manager: Process) -> None:
        """Heals a shared server in the manager's place; a server of the lab's own simply ends."""
        if self._toxiproxy.kind != "url" or not self.topology_path.exists():
            return
        healer = start(
            "heal", python("proxy_manager", "--heal"), self.environ(), [self.lifeline_end], manager.log
        )
        healer.wait(10)
        healer.stop()


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    return session


def _answers(session: requests.Session, url: str) -> bool:
    try:
        return session.get(url, timeout=_POLL_BOUND_S).status_code == 200
    except requests.RequestException:
        return False
