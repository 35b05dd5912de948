"""``wirefault exec`` whose parts are killed: one line reports it, nothing is left, and the next run works."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_process import CliProcess
from tests.conformance.servers import embedded_server
from tests.examples.serving import Recorded, shop
from tests.lab.demos import SELDOM, environ_in, processes
from tests.subjects.wired import alive, pid_in
from tests.support import until
from wirefault.toxiproxy.client import ToxiproxyClient

pytestmark = pytest.mark.slow

# It waits only after its first call, so that there is a link, and a toxic on it.
WAITS = "curl -s $1/orders > /dev/null; echo $$ > $2; exec sleep 600"
CALLS = "curl -sf $1/orders > /dev/null"
# by tap: the killed part, the exit code of ``exec``, and its message
KILLED = {
    "namespace": [
        ("subject", 0, "was killed by signal 9"),
        ("ingress", 70, "ingress was killed by signal 9"),
        ("exec", -9, ""),
    ],
    "proxy": [
        ("ingress", 70, "ingress was killed by signal 9"),
        ("gateway", 70, "gateway was killed by signal 9"),
    ],
}
TOXIC = ("--toxic-prob", "1", "--toxics", "latency:20", "--seed", "1")


@pytest.fixture
def server() -> Iterator[ToxiproxyClient]:
    """A shared Toxiproxy: what remains there is a leak."""
    with embedded_server() as url, ToxiproxyClient(url) as client:
        yield client


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Recorded]:
    with shop(tmp_path / "shop.db") as record:
        yield record


def start(folder: Path, server: ToxiproxyClient, tap: str, *command: str) -> CliProcess:
    lab = ("exec", "--tap", tap, "--out", str(folder), *TOXIC, "--toxiproxy", server.url)
    return CliProcess(folder, environ_in(folder), *lab, "--", *command)


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_no_process_outlives_killed_part(
    tmp_path: Path, request: pytest.FixtureRequest, server: ToxiproxyClient, orders: Recorded, tap: str
) -> None:
    """Kill the parts in turn, each in a new run in the same folder."""
    if tap == "namespace":
        request.getfixturevalue("namespaces")
    for killed, code, message in KILLED[tap]:
        the_rest_ends(tmp_path, server, orders, tap, killed, code, message)
    with start(tmp_path, server, tap, "sh", "-c", CALLS, "sh", orders.url) as again:
        output = again.output()
    assert again.returncode == 0, output
    assert not server.proxies()


def the_rest_ends(
    folder: Path, server: ToxiproxyClient, orders: Recorded, tap: str, killed: str, code: int, message: str
) -> None:
    (folder / "pid").unlink(missing_ok=True)
    with start(folder, server, tap, "sh", "-c", WAITS, "sh", orders.url, str(folder / "pid")) as process:
        subject = pid_in(folder / "pid")
        assert [proxy for proxy in server.proxies().values() if proxy.toxics]
        pids = {**processes(folder), "subject": subject, "exec": process.pid}
        os.kill(pids[killed], signal.SIGKILL)
        process.wait()
        until(lambda: not processes(folder) and not alive(subject), "the end of all processes", **SELDOM)
        output = process.output()
    until(lambda: not server.proxies(), "the end of its proxies", **SELDOM)
    assert process.returncode == code, (killed, output)
    assert message in output and "Traceback" not in output, (killed, output)
    if code == 70:
        assert output.count(message) == 1, output
        assert not (log := re.search(r"its log is (\S+)", output)) or Path(log[1]).exists()


@pytest.mark.parametrize(
    ("name", "code", "plant"),
    [
        ("state.db-journal", 70, "rm -f state/state.db-journal; mkfifo state/state.db-journal"),
        ("gateway-0.jsonl", 2, "for file in logs/runs/*/gateway-0.jsonl; do rm $file; echo > $file; done"),
    ],
)
def test_file_planted_during_the_run_is_named(
    tmp_path: Path, server: ToxiproxyClient, orders: Recorded, name: str, code: int, plant: str
) -> None:
    script = f"{CALLS}; cd {tmp_path}; {plant}; curl -s -m 5 $1/orders"
    with start(tmp_path, server, "proxy", "sh", "-c", script, "sh", orders.url) as process:
        output = process.output()
    assert process.returncode == code and "Traceback" not in output, output
    assert re.search(rf"error: the run ended early: .*{name}", output), output
