"""``python -IS helper.py REAPER MARK INGRESS DOOR ...``: stays in a tap's namespaces beside the subject.

The ingress may be without the rights to enter them. So it asks here, over the connection whose descriptor is
``INGRESS``, for sockets of this network: a byte ``4`` or ``6`` each, which is the version of IP. Their mark
exempts them from the redirection, so with one of them the ingress reaches a server that the subject started.
Each ``DOOR`` is the descriptor of a bound socket of the outer network: once the subject listens at the same
address in here, whoever connects to the door is connected with it.
Ends with the ingress's connection, and with the process ``REAPER``, whose child it is.
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
_LOOK_INTERVAL_S = 0.01
_PIECE = 65536


def main() -> None:
    reaper, mark, ingress, *doors = map(int, sys.argv[1:])
    _end_with(reaper)
    _let_go_of_all_but(ingress, *doors)
    for door in doors:
        threading.Thread(target=_keep_door, args=(socket.socket(fileno=door), mark), daemon=True).start()
    _serve(socket.socket(fileno=ingress), mark)


def _end_with(reaper: int) -> None:
    """Waits until it is the reaper's child, and is killed when that one ends."""
    while os.getppid() != reaper:
        if _ended(reaper):
            os._exit(0)
        time.sleep(_LOOK_INTERVAL_S / 10)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper:
        os._exit(0)


def _ended(process: int) -> bool:
    """Whether it runs no more; also while its parent has not asked how it ended, and it is still listed."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - pathlib doubles the time of the start
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _let_go_of_all_but(*kept: int) -> None:
    """The subject's output, and the ends of its pipes, are not to stay open for this process."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above
        if int(name) > 2 and int(name) not in kept:
            with suppress(OSError):  # that of the listing itself
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


def _keep_door(door: socket.socket, mark: int) -> None:
    while (probe := _dialled(door, mark)) is None:
        time.sleep(_LOOK_INTERVAL_S)
    probe.close()
    door.listen(1024)
    while True:
        client, _ = door.accept()
        server = _dialled(door, mark)
        if server is None:
            client.close()
            continue
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _dialled(door: socket.socket, mark: int) -> socket.socket | None:
    inside = _exempted(door.family, mark)
    try:
        inside.connect(door.getsockname())
    except OSError:
        inside.close()
        return None
    return inside


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one of the two is gone: the other hears of it below
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
