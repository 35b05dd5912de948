"""``python -IS helper.py REAPER MARK INGRESS FORWARD ...``: stays in a tap's namespaces with the subject.

The ingress may not have the rights to enter them. It requests sockets of this network over the connection
with the descriptor ``INGRESS``: one byte each, ``4`` or ``6``, the version of IP. Their mark exempts them
from the redirection, so the ingress can reach servers that the subject started. Each ``FORWARD`` is the
descriptor of a bound socket of the outer network: once the subject listens at the same address in here,
clients of that socket are connected to it. Ends with the ingress's connection, and with the process
``REAPER``, its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_SO_MARK = 36
_POLL_S = 0.01
_PIECE = 65536


def main() -> None:
    reaper, mark, ingress, *forwards = map(int, sys.argv[1:])
    _end_with(reaper)
    _close_all_but(ingress, *forwards)
    for forward in forwards:
        threading.Thread(
            target=_forward_port, args=(socket.socket(fileno=forward), mark), daemon=True
        ).start()
    _serve(socket.socket(fileno=ingress), mark)


def _end_with(reaper: int) -> None:
    """Wait until the reaper is the parent, and be killed when it ends."""
    while os.getppid() != reaper:
        if _ended(reaper):
            os._exit(0)
        time.sleep(_POLL_S / 10)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper:
        os._exit(0)


def _ended(process: int) -> bool:
    """Whether it has ended, even if its parent has not waited for it yet."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - pathlib doubles the time of the start
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _close_all_but(*open_fds: int) -> None:
    """Release the subject's output and pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above
        if int(name) > 2 and int(name) not in open_fds:
            with suppress(OSError):  # the descriptor of the listing
                os.close(int(name))


def _serve(ingress: socket.socket, mark: int) -> None:
    while versions := ingress.recv(64):
        for version in versions:
            family = socket.AF_INET6 if version == ord("6") else socket.AF_INET
            with _exempted(family, mark) as inside:
                socket.send_fds(ingress, [b"."], [inside.fileno()])


def _exempted(family: socket.AddressFamily | int, mark: int) -> socket.socket:
    inside = socket.socket(family, socket.SOCK_STREAM)
    inside.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
    return inside


def _forward_port(forward: socket.socket, mark: int) -> None:
    while (probe := _dialled(forward, mark)) is None:
        time.sleep(_POLL_S)
    probe.close()
    forward.listen(1024)
    while True:
        client, _ = forward.accept()
        server = _dialled(forward, mark)
        if server is None:
            client.close()
            continue
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _dialled(forward: socket.socket, mark: int) -> socket.socket | None:
    inside = _exempted(forward.family, mark)
    try:
        inside.connect(forward.getsockname())
    except OSError:
        inside.close()
        return None
    return inside


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one side is gone: the other gets an end below
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
