"""``wirefault exec`` with files that name links before these are found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import which
from subprocess import run
from typing import Any

import pytest

from tests.commands import wirefault
from tests.e2e.test_exec import Ran, links_in, port_link
from tests.examples.serving import Recorded, served
from tests.lab.demos import environ_in
from tests.support import latest_run
from wirefault.history.events import RunFinished

pytestmark = pytest.mark.slow

CALLER = """
import sys, urllib.error, urllib.request
for call in sys.argv[2:]:
    method, path, *body = call.split(" ", 2)
    data = body[0].encode() if body else None
    url = path if path.startswith("http") else f"http://{sys.argv[1]}{path}"
    request = urllib.request.Request(url, data, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            reply.read()
            print(method, path, reply.status)
    except urllib.error.HTTPError as error:
        print(method, path, error.code)
"""


def anything(environ: dict[str, Any], start: Any) -> list[bytes]:
    start("200 OK", [("Content-Type", "application/json")])
    return [b"{}"]


ORDER = {"method": "POST", "path": "/orders"}


@pytest.fixture(params=["namespace", "proxy"])
def tap(request: pytest.FixtureRequest) -> str:
    if request.param == "namespace":
        request.getfixturevalue("namespaces")
    return str(request.param)


def call(folder: Path, tap: str, server: Recorded, entry: Any, *calls: str) -> Ran:
    faults = json.dumps({"faults": [{"with": {"status": 503}, **each} for each in entry]})
    words = ("--tap", tap, "--faults", faults, "--json", "out.json", "--", sys.executable, "-c", CALLER)
    return Ran(folder, *words, server.url.removeprefix("http://"), *calls)


def test_fault_acts_from_first_request_and_unknown_name_is_reported(tmp_path: Path, tap: str) -> None:
    with served(anything) as server:
        link = port_link(server)
        entries = [
            {"fault": "status", "links": link, "when": {"first": 1, "of": "try"}},
            {"fault": "status", "id": "other", "links": [f"{link}0"]},
        ]
        ran = call(tmp_path, tap, server, entries, "GET /a", "GET /b")
    assert ran.stdout.splitlines() == ["GET /a 503", "GET /b 200"], ran.stderr
    sentence = (
        f"faults name '{link}0', which the agent never called; it called: {link}; did you mean '{link}'?"
    )
    assert sentence in " ".join(ran.stderr.split())
    [finished] = [event for event in ran.events() if isinstance(event, RunFinished)]
    assert [named.sentence for named in finished.never_called] == [sentence]
    summary = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert summary["never_called"] == [{"by": "faults", "name": f"{link}0", "called": [link]}]


def test_run_without_calls_to_named_link_is_unknown(tmp_path: Path, tap: str) -> None:
    with served(anything) as server:
        ran = call(tmp_path, tap, server, [{"fault": "status", "links": "openai"}], "GET /a")
    assert (ran.code, ran.stdout) == (2, "GET /a 200\n"), ran.stderr


def test_found_link_writes_are_probable_writes(tmp_path: Path, tap: str) -> None:
    calls = [
        *("GET /orders", "POST /orders {}", "PUT /orders/1 {}", "DELETE /orders/1", "PATCH /orders/1 {}"),
        *('POST /graphql {"query": "query { a }"}', "POST /oauth/token grant_type=refresh_token"),
    ]
    with served(anything) as server:
        ran = call(tmp_path, tap, server, [{"fault": "status", "links": "writes"}], *calls)
    statuses = [int(line.split()[-1]) for line in ran.stdout.splitlines()]
    assert statuses == [200, 503, 503, 503, 503, 200, 200], ran.stderr
    summary = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    [row] = summary["faults"]
    assert (row["eligible"], row["met"], row["always_on"]) == (4, 4, "held")


def test_loopback_addresses_of_one_port_are_one_link(tmp_path: Path, tap: str) -> None:
    with served(anything) as server:
        link, port = port_link(server), server.url.rpartition(":")[2]
        hosts = ("127.0.0.1", "localhost", "[::1]")
        calls = [f"GET http://{host}:{port}/{n}" for n, host in enumerate(hosts)]
        entries = [{"fault": "status", "links": link, "when": {"nth": 3}}]
        ran = call(tmp_path, tap, server, entries, *calls)
        assert [line.split()[-1] for line in ran.stdout.splitlines()] == ["200", "200", "503"], ran.stderr
        assert sorted(exchange.target for exchange in ran.exchanges(link)) == ["/0", "/1", "/2"]
    assert set(links_in(ran)) == {link}


def test_oracle_judges_writes_of_a_link_before_it_is_found(tmp_path: Path, tap: str) -> None:
    with served(anything) as server:
        link = port_link(server)
        prompts = [
            {"id": key, "prompt": key, "expect": {"requests": [{"link": name, **ORDER}]}}
            for key, name in (("right", link), ("misspelt", f"{link}0"))
        ]
        (tmp_path / "prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
        words = ("--tap", tap, "--prompts", "prompts.json", "--json", "out.json", "--", sys.executable)
        address = server.url.removeprefix("http://")
        ran = Ran(tmp_path, *words, "-c", CALLER, address, "POST /orders {}", "GET /orders")
    summary = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    worlds = {episode["episode"]: episode["world"] for episode in summary["episodes"]}
    assert worlds == {"right": "as_asked", "misspelt": "unknown"}, ran.stderr
    assert [(each["by"], each["name"]) for each in summary["never_called"]] == [("expect", f"{link}0")]


def test_run_of_a_wiring_that_intercepts_is_verified_and_repeated(tmp_path: Path) -> None:
    subject = {"command": [sys.executable, "-c", CALLER, "", "{prompt}"]}
    wiring = {"intercept": {"tap": "proxy"}, "subject": subject}
    (tmp_path / "wirefault.json").write_text(json.dumps(wiring), encoding="utf-8")
    with served(anything) as server:
        faults = json.dumps({"faults": [{"fault": "unavailable", "links": [port_link(server), "openai"]}]})
        words = (
            "run",
            "wirefault.json",
            "--prompt",
            f"GET {server.url}/a",
            "--faults",
            faults,
            "--no-charts",
        )
        done = wirefault(tmp_path, environ_in(tmp_path), *words)
    output = " ".join((done.stdout + done.stderr).split())
    assert "faults name 'openai', which the agent never called" in output
    run_id = latest_run(tmp_path / ".wirefault" / "logs")
    verified = wirefault(tmp_path, environ_in(tmp_path), "runs", "verify", run_id)
    assert port_link(server) in verified.stdout and "another version" not in verified.stderr, verified.stderr


UNSHARE = ("unshare", "-m", "sh", "-c", 'mount --bind hosts /etc/hosts && exec "$@"', "sh")


def own_hosts_file_works() -> bool:
    command = ["unshare", "-m", "sh", "-c", "mount --bind /etc/hosts /etc/hosts"]
    return which("unshare") is not None and run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not own_hosts_file_works(), reason="only root can give a process its own hosts file")
@pytest.mark.parametrize(
    ("rule", "statuses"), [("--pass", "200 503"), ("--only", "503 200"), ("--refuse", "- 503")]
)
def test_rules_go_by_a_name_of_the_hosts_file(tmp_path: Path, tap: str, rule: str, statuses: str) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost shop.test\n", encoding="utf-8")
    with served(anything) as server:
        port = server.url.rpartition(":")[2]
        words = (
            "exec",
            "--tap",
            tap,
            rule,
            "shop.test",
            "--faults",
            '{"faults": [{"fault": "unavailable"}]}',
        )
        call = 'curl -s -o out -w "%{http_code}\\n" http://'
        script = f"{call}shop.test:{port}/; {call}127.0.0.1:{port}/"
        command = [*UNSHARE, sys.executable, "-m", "wirefault", *words, "--", "sh", "-c", script]
        done = run(
            command, cwd=tmp_path, env=environ_in(tmp_path), capture_output=True, text=True, check=False
        )
    expected = statuses.replace("-", "403" if tap == "proxy" else "000").split()
    assert done.stdout.split() == expected, done.stderr
