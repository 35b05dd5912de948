"""Count the work behind one prompt whose write loses its reply, over all processes of a command.

    python -m tools.counted [demo|experiment|audit] [--files]

How often the episode is judged and its records joined, lines of the history parsed, the fault set built from
text or data, the links of a lab read and settings loaded: in all, in how many processes, at most in one of
them, and at most there for one thing (a line, a link's file). Also how many files of it are entered. Every
Python process gets a profile hook through ``sitecustomize``; forked ones inherit it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = {
    "the episode is judged": ("wirefault/judging/judge.py", "judge_trace"),
    "its records are joined": ("wirefault/judging/trace.py", "EpisodeTrace._joined"),
    "history lines parsed": ("wirefault/history/reader.py", "parse_line"),
    "the fault set is built": ("wirefault/faults/sets/fault_set.py", "build_set"),
    "the links of a lab are read": ("wirefault/wiring/topology.py", "Topology.load"),
    "settings loaded": ("wirefault/settings/configuration.py", "load_configuration"),
}
LOST = "{faults: [{fault: lose_reply, links: tools, only: {method: POST}, when: {first: 1, of: try}}]}"
CALM = ("--toxic-prob", "0", "--error-prob", "0", "--no-charts")
EXPERIMENT = f"title: t\nonly: ['18']\nhypothesis: [no crash]\nmethod: {{faults: {LOST}}}\n"
ORDER = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], b'pen', timeout=5).read())"
COMMANDS = {
    "demo": ("demo", "--only", "18", "--seed", "1", *CALM, "--faults", LOST),
    "experiment": ("run", "experiment.yaml", "--seed", "1"),
    "audit": ("audit", "--ask", "lost_reply", "--", sys.executable, "-c", ORDER),
}
HOOK = """
import os, sys, threading
ROOT, OUT, WORK = {root!r}, {out!r}, {work!r}
SEEN = {{}}
def write(line):
    with open(OUT, "a") as file:
        file.write(line + "\\n")
def hook(frame, event, _):
    if event == "call":
        code = frame.f_code
        name = code.co_filename
        if code.co_flags & 1 and SEEN.get(name) != os.getpid():  # a function, not a module's body
            SEEN[name] = os.getpid()
            if name.startswith(ROOT) and ".venv" not in name:
                write("file " + name[len(ROOT) + 1:])
        if code.co_name in WORK and (name[len(ROOT) + 1:], code.co_qualname) in WORK[code.co_name]:
            given = [frame.f_locals.get(name) for name in ("path", "number")]
            write(f"call {{os.getpid()}} {{code.co_qualname}} {{given[0]}}:{{given[1]}}")
sys.setprofile(hook)
threading.setprofile(hook)
"""


class _Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Call(NamedTuple):
    """A call of a counted function; ``of``: the file, and the line in it, that it was called for."""

    process: str
    function: str
    of: str


def counted(kind: str = "demo") -> tuple[Counter[Call], set[str]]:
    """Count the calls, and return the files entered. Raises ``CalledProcessError`` if the lab fails."""
    by_name: dict[str, list[tuple[str, str]]] = {}
    for file, function in WORK.values():
        by_name.setdefault(function.rpartition(".")[2], []).append((file, function))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "counted.txt")
        hook = HOOK.format(root=str(ROOT), out=str(out), work=by_name)
        Path(folder, "sitecustomize.py").write_text(hook, encoding="utf-8")
        wirefault = str(Path(sys.executable).with_name("wirefault"))
        environ = os.environ | {"PYTHONPATH": folder}
        Path(folder, "experiment.yaml").write_text(EXPERIMENT, encoding="utf-8")
        with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as shop:
            threading.Thread(target=shop.serve_forever, daemon=True).start()
            order = [f"http://127.0.0.1:{shop.server_port}/orders"] if kind == "audit" else []
            words = [wirefault, COMMANDS[kind][0], "--toxiproxy", "embedded", "--out", folder]
            ended = subprocess.run(
                [*words, *COMMANDS[kind][1:], *order], env=environ, cwd=folder, check=False
            )
            shop.shutdown()
        if ended.returncode not in (0, 1, 2):
            ended.check_returncode()
        lines = [line.split(maxsplit=3) for line in out.read_text(encoding="utf-8").splitlines()]
    calls = Counter(Call(*line[1:]) for line in lines if line[0] == "call")
    return calls, {line[1] for line in lines if line[0] == "file"}


def most(calls: Counter[Call], function: str, *, of_one: bool = False) -> int:
    """The greatest number of calls of a function in one process; there ``of_one`` line or file."""
    by_process: Counter[tuple[str, str]] = Counter()
    for call, number in calls.items():
        if call.function == function:
            by_process[call.process, call.of if of_one else ""] += number
    return max(by_process.values(), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", nargs="?", choices=COMMANDS, default="demo")
    parser.add_argument("--files", action="store_true", help="print the files, too")
    chosen = parser.parse_args()
    calls, files = counted(chosen.kind)
    if chosen.files:
        print(*sorted(files), sep="\n")
    print(f"{'':<32}  in all  processes  most in one  of one there")
    for what, (_, function) in WORK.items():
        of_function = Counter({call: number for call, number in calls.items() if call.function == function})
        processes = len({call.process for call in of_function})
        one, same = most(calls, function), most(calls, function, of_one=True)
        print(f"{what:<32}  {of_function.total():>6}  {processes:>9}  {one:>11}  {same:>12}")
    print(f"{'files entered':<32}  {len(files):>4}")


if __name__ == "__main__":
    main()
