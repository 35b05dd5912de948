"""A user's subject in a container next to the lab, as in compose.subject.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.compose.engine import IMAGE, V1, V2, docker, has
from tests.compose.rig import SELDOM, Lab, copy_clone, environment
from tests.compose.test_isolation import PORTS, addresses, from_service
from tests.support import until
from wirefault.core.sockets import CONTROL_PORT, EGRESS_PORT, INGRESS_PORT, TOXIPROXY_PORT
from wirefault.history.events import Exchange
from wirefault.history.reader import read_run
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.compose

FOLDER = "examples/compose"
# a build labels the image with its project: shared by two projects, it would make the next `up` of one
# recreate all containers
OWN_IMAGE = f"{IMAGE}-subject"
AT_THE_SUBJECT = {"message": 6005, "calculator": 6004}  # the proxies of its links
BY_THE_INGRESS = """
import requests
for url in {urls}:
    try:
        print(requests.get(url, timeout=30).status_code)
    except requests.RequestException as error:
        print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def lab(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab with the example's subject, whose wiring lets it call any host; its first run is over."""
    folder = tmp_path_factory.mktemp("subject")
    copy_clone(folder)
    wiring = folder / FOLDER / "wirefault.yaml"
    wiring.write_text(wiring.read_text().replace("{tap: proxy, offline: true}", "{tap: proxy}"))
    more = {"COMPOSE_FILE": "docker-compose.yaml:compose.subject.yaml"}
    more |= {"WIREFAULT_IMAGE": OWN_IMAGE, "SUBJECT_IMAGE": OWN_IMAGE}
    more["ARM_TIMEOUT"] = "60"  # a busy machine is not a failure of the lab
    lab = Lab(folder, environment("subject-") | more, V2 if has(V2) else V1)
    try:
        lab.compose("build")  # `up` uses an existing image, whatever its source
        lab.compose("up -d", TOXIC_PROB="0", ERROR_PROB="0")
        assert lab.wait() == 0, lab.last_words()
        yield lab
    finally:
        lab.down()
        docker("rmi", OWN_IMAGE, check=False)


def exchanges(lab: Lab) -> list[Exchange]:
    return [event for event in read_run(lab.logs, lab.runs()[-1]) if isinstance(event, Exchange)]


def test_subject_calls_cross_lab_by_ingress_and_address(lab: Lab) -> None:
    assert lab.last_run().outcomes == {"success": 2}
    assert {exchange.link: exchange.tls for exchange in exchanges(lab)} == {
        "message": "fresh",
        "calculator": "",
    }
    variables = f"SUBJECT_FOLDER={FOLDER} SUBJECT_IMAGE={OWN_IMAGE}"
    repeats = f"{variables} docker compose -f docker-compose.yaml -f compose.subject.yaml up"
    assert any(line.endswith(repeats) for line in lab.log("agent"))


def test_both_calls_are_faulted(lab: Lab) -> None:
    lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=1 -e SEED=1 agent")
    struck = {exchange.link for exchange in exchanges(lab) for fault in exchange.faults if fault.injected}
    assert struck == set(AT_THE_SUBJECT)
    lab.compose("run --rm -e TOXIC_PROB=1 -e TOXICS=timeout:300 -e ERROR_PROB=0 -e SEED=1 agent")
    assert "success" not in lab.last_run().outcomes
    assert lab.last_run().toxics_left == 0


def test_standalone_command_is_faulted_as_live_traffic(lab: Lab) -> None:
    host = {"WIRING": f"{FOLDER}/wirefault.yaml"}
    down = "{faults: [{fault: unavailable, links: tools}]}"
    (lab.folder / "experiments" / "down.yaml").write_text(down)
    assert lab.play("wirefault faults set experiments/down.yaml", **host).returncode == 0
    answer = lab.compose("run --rm subject python /subject/agent.py 'Send Bob \"hello\"'")
    assert "I could not do that" in answer
    done = lab.play("wirefault faults clear && wirefault faults status", **host)
    assert "on message: met 1, injected 1" in done.stdout, done.stdout + done.stderr


def test_subject_reaches_proxies_and_ingress_only(lab: Lab) -> None:
    ports = [*PORTS, INGRESS_PORT, EGRESS_PORT]
    targets = [(name, port) for names in addresses(lab).values() for name in sorted(names) for port in ports]
    opened = {target for target, how in from_service(lab, "subject", *targets).items() if how == "open"}
    assert {port for _, port in opened} == {*AT_THE_SUBJECT.values(), INGRESS_PORT}
    assert {name for name, _ in opened} <= addresses(lab)["toxiproxy"] | addresses(lab)["ingress"]


def test_ingress_does_not_route_to_lab_services(lab: Lab) -> None:
    """By whatever name or address, in plain or as a tunnel."""
    at = addresses(lab)
    parts = [(name, TOXIPROXY_PORT) for name in at["toxiproxy"]]
    parts += [(name, CONTROL_PORT) for name in at["gateway"]]
    parts += [(name, EGRESS_PORT) for name in at["gateway"]]
    parts += [(link.service, link.port) for link in lab_links() if link.name not in AT_THE_SUBJECT]
    urls = [f"{scheme}://{name}:{port}/" for name, port in parts for scheme in ("http", "https")][:60]
    statuses = lab.python("subject", BY_THE_INGRESS.format(urls=urls)).split()
    assert len(statuses) == len(urls)
    assert not [(url, how) for url, how in zip(urls, statuses, strict=True) if how[0] in "23"]


def test_unlisted_host_becomes_link(lab: Lab) -> None:
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

    with HTTPServer(("0.0.0.0", 0), Hello) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://host.docker.internal:{server.server_port}/"
        assert lab.python("subject", BY_THE_INGRESS.format(urls=[url])) == "204"
        server.shutdown()
    rows = lab.rows("SELECT link, status FROM found_links")
    assert url.rstrip("/") in {json.loads(link)["upstream"] for link, status in rows if status == "open"}


def test_subject_has_certificates_read_only_and_no_key(lab: Lab) -> None:
    code = """
from pathlib import Path
files = sorted(Path('/wirefault').iterdir())
print([file.name for file in files], any(b'PRIVATE KEY' in file.read_bytes() for file in files))
try:
    files[0].write_text('')
except OSError as error:
    print(error.strerror)
"""
    names, refused = lab.python("subject", code).splitlines()
    assert names == "['authority.pem', 'bundle.pem', 'preload.cjs', 'trust.p12'] False"
    assert refused == "Read-only file system"


def test_wiring_without_interception_ends_ingress_with_one_line(lab: Lab) -> None:
    wiring: Path = lab.folder / FOLDER / "plain.yaml"
    wiring.write_text("links: {calculator: {upstream: lab, port: 5004}}\n")
    done = lab.play(f"docker compose run --rm --no-deps -e WIRING={FOLDER}/plain.yaml ingress")
    assert done.returncode == 1
    assert "plain.yaml intercepts nothing: write `intercept: {}`" in done.stdout + done.stderr


def test_lab_survives_restart_of_ingress(lab: Lab) -> None:
    lab.compose("restart --timeout 3 ingress")
    until(lambda: lab.health("ingress") == "healthy", "a healthy ingress", **SELDOM)
    lab.compose("run --rm -e TOXIC_PROB=0 -e ERROR_PROB=0 agent")
    assert lab.last_run().outcomes == {"success": 2}
