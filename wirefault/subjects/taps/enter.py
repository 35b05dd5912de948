"""``python -IS enter.py SETUP DOORS ENTERED COMMAND ...``: turns its namespaces into a tap, runs the command.

``unshare`` starts it in new mount and network namespaces. In there every TCP connection is redirected to one
listening socket, and every name is asked of one other; both go to the ingress, which works outside. A helper
(``helper.py``) stays inside for what only a process in there can do. ``SETUP`` is a JSON file: see
``namespace.py``, which writes it. ``DOORS`` are descriptors of bound sockets of the outer network, with
commas between, by which others reach the server that the command is. ``ENTERED`` is empty, or a descriptor
that gets a byte once all is done and the command is about to run. Without a command it is a trial.
Standard library only, since it starts with each attempt.
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

_FAILED = 126
# not redirected: what the ingress dials in here, by its mark, and what is redirected already, by its port
_MARK, _PORT = 7, 7
_RULES = (
    "table inet wirefault { chain out { type nat hook output priority -100;"
    f" meta mark {_MARK} return; tcp dport != {_PORT} redirect to :{_PORT}; }}; }}"
)
_MS_BIND = 4096
_ANSWER_BYTES, _ANSWER_BOUND_S = 1024, 30.0


def main() -> int:
    setup_file, doors, entered, *command = sys.argv[1:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what is ignored stays so
    try:
        with open(setup_file, encoding="utf-8") as file:  # noqa: PTH123 - pathlib doubles the time of the start
            setup = json.load(file)
        _redirect(setup)
        _bind_files(setup["mounts"])
        _bind_files([(setup["bundle"], store) for store in _stores_beside(command)])
        if command:
            ingress = _hand_over(setup["ingress"])
            _leave_helper(setup["helper"], ingress, doors)
    except (OSError, subprocess.CalledProcessError) as error:
        return _failed(f"the namespace tap: {_reason(error)}")
    if not command:
        return 0
    words = [*setup["restore"], *command]
    if entered:
        os.write(int(entered), b".")
        os.close(int(entered))
    try:
        os.execvp(words[0], words)
    except OSError as error:
        return _failed(f"{words[0]}: {error.strerror}")


def _redirect(setup: dict[str, Any]) -> None:
    """Every address is here, and every TCP connection goes to the one port."""
    routes = ["link set lo up", "route add local 0.0.0.0/0 dev lo"]
    if os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110 - as above
        routes.append("route add local ::/0 dev lo")
    _run([setup["ip"], "-batch", "-"], "\n".join(routes))
    _run([setup["nft"], "-f", "-"], _RULES)


def _run(command: list[str], given: str) -> None:
    subprocess.run(command, input=given, text=True, check=True, capture_output=True)


def _bind_files(mounts: list[tuple[str, str]]) -> None:
    """Puts each first file in the place of the second, for whatever runs in this namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    for source, target in mounts:
        if libc.mount(source.encode(), target.encode(), None, _MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"{target}: {os.strerror(ctypes.get_errno())}")


def _stores_beside(command: list[str]) -> list[str]:
    """The certificates of the Python packages of the environment that the program is in.

    Servers that an MCP client starts are often of the same one, and are started without any variable.
    """
    if not command:
        return []
    paths = [os.path.join(folder, command[0]) for folder in os.get_exec_path()]  # noqa: PTH118 - as above
    program = next(filter(os.path.exists, paths), command[0])
    environment = os.path.dirname(os.path.dirname(program))  # noqa: PTH120
    return glob.glob(f"{environment}/lib/python3*/site-packages/certifi/cacert.pem")  # noqa: PTH207


def _hand_over(path: str) -> socket.socket:
    """Gives the ingress the sockets to which all is redirected. Returns the connection to it."""
    ingress = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    ingress.connect(f"/proc/self/fd/{directory}/{name}")  # the path may be longer than a socket's may be
    os.close(directory)
    with _listener() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        names.bind(("0.0.0.0", 53))  # of a namespace that has no way out
        socket.send_fds(ingress, [b'{"tap": "namespace"}\n'], [tcp.fileno(), names.fileno()])
        ingress.settimeout(_ANSWER_BOUND_S)
        answer = ingress.recv(_ANSWER_BYTES)
        ingress.settimeout(None)
    if answer != b'{"ok": true}\n':
        raise OSError("the lab's ingress did not take it")
    return ingress


def _listener() -> socket.socket:
    if not os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110 - as above
        return socket.create_server(("0.0.0.0", _PORT), backlog=1024)
    return socket.create_server(("::", _PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)


def _leave_helper(helper: str, ingress: socket.socket, doors: str) -> None:
    """Starts the helper so that it is no child of the command, which may wait for all that it has."""
    reaper = os.getppid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        ingress.close()
        for door in filter(None, doors.split(",")):
            os.close(int(door))
        return
    if os.fork() == 0:
        ingress.set_inheritable(True)
        words = [helper, str(reaper), str(_MARK), str(ingress.fileno()), *filter(None, doors.split(","))]
        os.execv(sys.executable, [sys.executable, "-I", "-S", *words])
    os._exit(0)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = str(error.stderr).strip().splitlines() or [f"exit code {error.returncode}"]
        return f"{os.path.basename(error.cmd[0])}: {lines[0]}"  # noqa: PTH119 - as above
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)


def _failed(message: str) -> int:
    os.write(2, (message + "\n").encode(errors="replace"))
    return _FAILED


if __name__ == "__main__":
    os._exit(main())
