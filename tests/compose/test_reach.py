"""Attacks by the agent's container: on the control APIs, on namespaces, and on the user's own commands."""

from __future__ import annotations

import base64
import http.client
import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.compose.rig import Lab
from wirefault.core.sockets import CONTROL_PORT
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.saved import save

pytestmark = pytest.mark.compose

# The token is passed reversed, so that the search does not find itself.
SEARCH = """
import os
token = {reversed!r}[::-1].encode()
seen, found = 0, []
for top in ("/app", "/tmp", "/run", "/etc", "/home", "/var", "/mnt", "/proc/self/environ", "/proc/1/environ"):
    walked = os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [os.path.basename(top)])]
    for folder, _, names in walked:
        for name in names:
            path = os.path.join(folder, name)
            try:
                with open(path, "rb") as file:
                    seen += 1
                    if token in file.read(1 << 26):
                        found.append(path)
            except OSError:
                pass
print(seen > 100, os.path.exists("/app/state/state.db"), found)
"""


def in_agent(lab: Lab, code: str) -> str:
    """The output of this code in a container of the agent."""
    done = lab.play(f"docker compose run --rm --no-deps -T agent python -c {shlex.quote(code)}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def token(lab: Lab) -> str:
    return lab.python("gateway", "print(open('/run/wirefault/token').read())")


def test_agent_files_and_variables_lack_token(lab: Lab, token: str) -> None:
    assert len(token) == 64
    assert in_agent(lab, SEARCH.format(reversed=token[::-1])).splitlines()[-1] == "True True []"


ASK = """
import http.client, json
def status(method, path, **headers):
    client = http.client.HTTPConnection({host!r}, {port}, timeout=60)
    client.request(method, path, "{{}}", {{name.replace("_", "-"): value for name, value in headers.items()}})
    return client.getresponse().status
token, own = "Bearer " + open("/run/wirefault/token").read(), {own!r}
wrong = "Bearer " + "0" * 64
for method, path in {routes}:
    print(json.dumps([
        status(method, path, Host=own, Content_Type="application/json"),
        status(method, path, Host=own, Content_Type="application/json", Authorization=wrong),
        status(method, path, Host="rebound.example", Content_Type="application/json", Authorization=token),
        status(method, path, Host=own, Origin="http://page.example", Content_Type="application/json",
               Authorization=token),
        status(method, path, Host=own, Content_Type="text/plain", Authorization=token),
    ]))
"""
ROUTES = [
    ("PUT", "/lanes/0"),
    ("PUT", "/lanes/0/faults"),
    ("PUT", "/lanes/0/calls"),
    ("POST", "/lanes/0/calls"),
    ("PUT", "/lanes/0/turn"),
    ("PUT", "/lanes/0/links/x"),
    ("POST", "/lanes/0/settle"),
]


def test_gateway_control_requires_token_from_neighbours(lab: Lab) -> None:
    """The manager's container reaches it; the agent's does not (``test_isolation``)."""
    host = "gateway-control"
    code = ASK.format(host=host, port=CONTROL_PORT, own=f"{host}:{CONTROL_PORT}", routes=ROUTES)
    answers = [json.loads(line) for line in lab.python("proxy_mgr", code).splitlines()]
    assert answers == [[401, 401, 403, 403, 415]] * len(ROUTES)


def test_published_manager_refuses_pages_and_strangers(lab: Lab) -> None:
    manager = lab.manager()

    def status(method: str, **headers: str) -> int:
        with closing(http.client.HTTPConnection(manager.host, manager.port, timeout=60)) as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request(method, "/faults", '{"faults": ""}', named)
            return client.getresponse().status

    own = str(manager)
    assert status("GET", Host=own) == 200
    assert status("GET", Host="rebound.example") == 403
    assert status("GET", Host=own, Origin="http://page.example") == 403
    assert {status(method, Host=own, Content_Type="text/plain") for method in ("PUT", "DELETE")} == {401}
    assert status("PUT", Host=own, Content_Type="application/json") == 401


ENTER = """
import ctypes, errno, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def tried(*call):
    return errno.errorcode.get(ctypes.get_errno()) if getattr(libc, call[0])(*call[1:]) else "done"
pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
print(len({os.readlink(f"/proc/{pid}/ns/net") for pid in pids}), "network")
print(subprocess.run(["nsenter", "-t", "1", "-n", "true"], capture_output=True).returncode)
print(tried("setns", os.open("/proc/1/ns/net", os.O_RDONLY), 0))
print(tried("unshare", 0x10000000), tried("unshare", 0x40000000))
print(tried("mount", b"none", b"/mnt", b"tmpfs", 0, None))
"""


def test_other_networks_are_unreachable(lab: Lab) -> None:
    assert in_agent(lab, ENTER).splitlines()[-5:] == ["1 network", "1", "EPERM", "EPERM EPERM", "EPERM"]


BLANK_LINES = """
import http.client, socket
flood = socket.create_connection(("proxies", 6005), timeout=60)
flood.sendall(b"\\r\\n" * 4_000_000)
client = http.client.HTTPConnection("proxies", 6005, timeout=60)
client.request("GET", "/")
print(client.getresponse().status)
"""


def test_blank_lines_do_not_block_gateway(lab: Lab) -> None:
    """Quadratic parsing took minutes for eight megabytes."""
    assert in_agent(lab, BLANK_LINES).splitlines()[-1] == "200"


MARK = "code-ran"
WIRING = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9", "env": "SHOP_URL"}},
    "subject": {"command": ["touch", MARK]},
}
WRITE = """
import base64, json, os
folder = "/app/logs/experiments/{name}"
os.makedirs(folder, exist_ok=True)
for name, content in {files}.items():
    open(os.path.join(folder, name), "wb").write(base64.b64decode(content))
{trap}
"""
# what a planted file may be or hold: tests/experiments/test_hostile_experiments.py
TRAPS = {"nothing": "", "folder": "os.rename(folder, folder + 'x'); os.symlink('/etc', folder)"}
COMMANDS = (
    "list",
    "report latest",
    "show latest",
    "runs verify latest",
    "run --resume latest",
    "run --again latest",
)


@pytest.fixture(scope="module")
def foreign_plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of an experiment whose command leaves a mark."""
    folder = tmp_path_factory.mktemp("plan")
    document: dict[str, Any] = {
        "title": "Another user's",
        "wiring": "w.json",
        "prompts": [{"prompt": "Hello"}],
        "method": {"settings": {"error_prob": 1}},
        "hypothesis": ["no crash"],
    }
    (folder / "w.json").write_text(json.dumps(WIRING), encoding="utf-8")
    (folder / "exp.json").write_text(json.dumps(document), encoding="utf-8")
    saved = save(
        plan_experiment(load_experiment(folder / "exp.json"), {"LOGS_DIR": str(folder / "logs")}), "x"
    )
    names = ("plan.json", "prompts.json")
    return {name: base64.b64encode((saved.folder / name).read_bytes()).decode() for name in names}


@pytest.fixture
def experiments(lab: Lab) -> Iterator[Path]:
    folder = lab.logs / "experiments"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("trap", TRAPS)
def test_planted_experiment_cannot_escape_container(
    lab: Lab, experiments: Path, foreign_plan: dict[str, str], trap: str
) -> None:
    name = "29991231-235959-ffffff"  # the latest
    in_agent(lab, WRITE.format(name=name, files=foreign_plan, trap=TRAPS[trap]))
    before = set(lab.folder.rglob(MARK))
    passwd = Path("/etc/passwd").stat().st_mtime_ns
    for command in COMMANDS:
        done = lab.play(f"timeout 120 wirefault {command}")
        assert done.returncode != 124, command  # none hangs
        assert "Traceback" not in done.stderr and "root:" not in done.stdout + done.stderr, command
        if command.startswith("run "):
            assert done.returncode in (2, 64) and len(done.stderr.splitlines()) <= 3, done.stderr
    assert set(lab.folder.rglob(MARK)) == before == set()
    assert Path("/etc/passwd").stat().st_mtime_ns == passwd


def test_runs_are_whole_on_host(lab: Lab, tmp_path: Path) -> None:
    lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=0 -e SEED=1 agent")
    run = lab.runs()[-1]
    states = {
        f"show {run}": "evidence: whole: ",
        f"show {run} 1": "evidence: whole: ",
        f"report {run}": "evidence: whole: ",
        f"runs verify {run}": "evidence: whole: ",
        f"compare {run} {run}": "evidence of the second: whole: ",
        f"runs bundle {run} {tmp_path}/run.tar.gz": " whole: ",
        "list": f"{run} nothing harmful found none whole ",
    }
    for command, state in states.items():
        done = lab.play(f"wirefault {command}")
        assert state in " ".join(done.stdout.split()), (command, done.stdout, done.stderr)
    drawn = lab.play(f"python charts.py --run {run}")
    assert f"evidence of {run}: whole: " in drawn.stderr, drawn.stderr
    # another user of another machine
    subprocess.run(["tar", "xzf", tmp_path / "run.tar.gz", "-C", tmp_path], check=True, timeout=60)
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "private"), "HOME": str(tmp_path)}
    done = lab.play(f"wirefault show {run} --out {tmp_path}", **elsewhere)
    assert "evidence: whole: " in done.stdout


def test_edit_by_agent_is_detected_on_host(lab: Lab) -> None:
    lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=0 -e SEED=1 agent")
    run = lab.runs()[-1]
    edit = f"""
import os
path = "/app/logs/runs/{run}/gateway-0.jsonl"
times = os.stat(path)
data = open(path, "rb").read()
open(path, "wb").write(data.replace(b'"status":200', b'"status":500', 1))
os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
"""
    in_agent(lab, edit)
    try:
        for command in (f"show {run}", f"report {run}", f"runs verify {run}", f"compare {run} {run}", "list"):
            done = lab.play(f"wirefault {command}")
            assert done.returncode == 2 and f"{run}/gateway-0.jsonl:" in done.stderr, command
        drawn = lab.play(f"python charts.py --run {run}")
        assert drawn.returncode == 2 and "altered: " in drawn.stderr
    finally:
        shutil.rmtree(lab.logs / "runs" / run)


def test_published_port_is_loopback_alone(lab: Lab) -> None:
    """So the gateway cannot be led to the manager by this machine's address."""
    code = f"""
import socket
try:
    socket.create_connection(("host.docker.internal", {lab.manager().port}), 5)
    print("open")
except OSError as error:
    print(type(error).__name__)
"""
    assert lab.python("gateway", code) != "open"
