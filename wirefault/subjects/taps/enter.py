"""``python -IS enter.py SETUP FORWARDS STARTED_FD COMMAND ...``: turns its namespaces into a tap, runs the
command.

``unshare`` starts it in new mount and network namespaces. It redirects every TCP connection to one listening
socket and every DNS query to another, and hands both to the ingress, which runs outside. A helper
(``helper.py``) stays inside. ``SETUP`` is a JSON file that ``namespace.py`` writes. ``FORWARDS`` are
descriptors of bound sockets of the outer network, separated by commas, through which the command's server is
reached. ``STARTED_FD`` is empty, or a descriptor that gets a byte just before the command runs. Without a
command it is a trial. Standard library only, since it starts with each attempt.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

_FAILED = 126
# not redirected: the ingress's own connections (by mark), and redirected ones (by port)
_MARK, _PORT = 7, 7
_RULES = (
    "table inet wirefault { chain out { type nat hook output priority -100;"
    f" meta mark {_MARK} return; tcp dport != {_PORT} redirect to :{_PORT}; }}; }}"
)
_MS_BIND, _MS_REC = 4096, 16384
_PR_CAPBSET_DROP = 24
_ANSWER_BYTES, _ANSWER_BOUND_S = 1024, 30.0


def main() -> int:
    setup_file, forwards, started_fd, *command = sys.argv[1:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec keeps that
    try:
        with open(setup_file, encoding="utf-8") as file:  # noqa: PTH123 - pathlib doubles the time of the start
            setup = json.load(file)
        _redirect(setup)
        _bind_files(setup["mounts"])
        _bind_files([(setup["bundle"], store) for store in _stores_beside(command, setup["launchers"])])
        if command:
            ingress = _hand_over(setup["ingress"])
            _leave_helper(setup["helper"], ingress, forwards)
        _bind_files(setup["private"])
        _drop(setup["drop"])
    except (OSError, subprocess.CalledProcessError) as error:
        return _failed(f"the namespace tap: {_reason(error)}")
    if not command:
        return 0
    words = [*setup["restore"], *command]
    if started_fd:
        os.write(int(started_fd), b".")
        os.close(int(started_fd))
    try:
        os.execvp(words[0], words)
    except OSError as error:
        return _failed(f"{words[0]}: {error.strerror}")


def _redirect(setup: dict[str, Any]) -> None:
    """Make every address local, and redirect every TCP connection to one port."""
    routes = ["link set lo up", "route add local 0.0.0.0/0 dev lo"]
    if os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110 - as above
        routes.append("route add local ::/0 dev lo")
    _run([setup["ip"], "-batch", "-"], "\n".join(routes))
    _run([setup["nft"], "-f", "-"], _RULES)


def _run(command: list[str], stdin_text: str) -> None:
    subprocess.run(command, input=stdin_text, text=True, check=True, capture_output=True)


def _bind_files(mounts: list[tuple[str, str]]) -> None:
    """Mount each first file or folder over the second in this namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    for source, target in mounts:
        if libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None):
            raise OSError(ctypes.get_errno(), f"{target}: {os.strerror(ctypes.get_errno())}")


def _drop(capabilities: list[int]) -> None:
    """Take capabilities from the command and all its descendants, even where they are root."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in capabilities:
        failed = libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        if failed and ctypes.get_errno() != errno.EINVAL:  # unknown to an older kernel
            raise OSError(ctypes.get_errno(), f"capability {capability}: {os.strerror(ctypes.get_errno())}")


def _stores_beside(command: list[str], launchers: str) -> list[str]:
    """Return the certifi bundles of the Python environment that the program is in.

    An MCP client often starts its servers from the same one, without any variables.
    """
    if not command:
        return []
    folders = [folder for folder in os.get_exec_path() if folder != launchers]
    paths = [os.path.join(folder, command[0]) for folder in folders]  # noqa: PTH118 - as above
    program = next(filter(os.path.exists, paths), command[0])
    environment = os.path.dirname(os.path.dirname(program))  # noqa: PTH120
    return glob.glob(f"{environment}/lib/python3*/site-packages/certifi/cacert.pem")  # noqa: PTH207


def _hand_over(path: str) -> socket.socket:
    """Give the ingress both sockets. Returns the connection to it."""
    ingress = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    ingress.connect(f"/proc/self/fd/{directory}/{name}")  # the path may exceed the limit for sockets
    os.close(directory)
    with _listener() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        names.bind(("0.0.0.0", 53))  # in a namespace without a route outside
        socket.send_fds(ingress, [b'{"tap": "namespace"}\n'], [tcp.fileno(), names.fileno()])
        ingress.settimeout(_ANSWER_BOUND_S)
        answer = ingress.recv(_ANSWER_BYTES)
        ingress.settimeout(None)
    if answer != b'{"ok": true}\n':
        raise OSError("the lab's ingress refused it")
    return ingress


def _listener() -> socket.socket:
    if not os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110 - as above
        return socket.create_server(("0.0.0.0", _PORT), backlog=1024)
    return socket.create_server(("::", _PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)


def _leave_helper(helper: str, ingress: socket.socket, forwards: str) -> None:
    """Start the helper, but not as a child of the command, which may wait for all its children."""
    reaper = os.getppid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        ingress.close()
        for forward in filter(None, forwards.split(",")):
            os.close(int(forward))
        return
    if os.fork() == 0:
        ingress.set_inheritable(True)
        words = [helper, str(reaper), str(_MARK), str(ingress.fileno()), *filter(None, forwards.split(","))]
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
