"""``wirefault`` as a program for shells, whose commands are forked from one process with all imports.

Starting an interpreter and importing costs more than a second of CPU for each command, and four for each lab.
CI pays that price before a release: see ``tests/cli_process.py``. The server listens on an abstract socket,
which only the shells of one network reach; ``PROGRAM`` hands over its folder, words, variables and streams.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from typing import NoReturn

from tests.cli_process import end_with
from tests.cli_process import main as run_command
from tests.shared_imports import IMPORTS
from tests.support import RUN_PATIENCE_S
from wirefault.cli.main import COMMANDS
from wirefault.lab.fork_server import _prepare

ADDRESS = "\0wirefault-commands"
# waits for the imports of the server, on a busy machine for long
PROGRAM = f"""#!{sys.executable} -IS
import json, os, socket, sys, time

deadline = time.monotonic() + {RUN_PATIENCE_S}
request = json.dumps({{"words": sys.argv[1:], "folder": os.getcwd(), "environ": dict(os.environ)}}).encode()
with socket.socket(socket.AF_UNIX) as server:
    while server.connect_ex({ADDRESS!r}):
        if time.monotonic() > deadline:
            sys.exit("no server of commands")
        time.sleep(0.02)
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(request)
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(16)))
"""


def main() -> None:
    _prepare([*(f"wirefault.cli.{name}" for name in COMMANDS if name != "list"), *IMPORTS])
    gc.freeze()  # a collection would copy shared memory
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(ADDRESS)
        listener.listen()
        while True:
            shell, _ = listener.accept()
            with shell:
                if pid := os.fork():
                    shell.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    continue
                listener.close()
                _run(shell)


def _run(shell: socket.socket) -> NoReturn:
    """Be the command that the shell asks for."""
    _, streams, *_ = socket.recv_fds(shell, 1, 3)
    with shell.makefile("rb") as stream:
        request = json.loads(stream.read())
    shell.close()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["wirefault", request["folder"], *request["words"]]
    end_with(run_command)


if __name__ == "__main__":
    main()
