"""Inside the namespace tap, except for clients that the ingress answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import opened, places, run
from wirefault.core.files import make_private_folder
from wirefault.subjects.taps.opening import with_bundle
from wirefault.subjects.taps.tap import Tap

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("namespaces")]

OWN_SERVER = """
import http.server, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"its own")
    def log_message(self, *_): pass
class Server(http.server.HTTPServer):
    address_family = FAMILY
server = Server((HOST, 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://{URL_HOST}:{server.server_port}/").read().decode())
"""
UDP = """
import socket
quic = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
quic.settimeout(10)
quic.connect(("1.1.1.1", 443))
quic.send(b"hello")
try:
    quic.recv(100)
except ConnectionRefusedError:
    print("refused")
"""
NAMES = """
import socket
print(*map(socket.gethostbyname, ["shop.example", "shop.example", "localhost"]))
print([family for family, *_ in socket.getaddrinfo("shop.example", 443, type=socket.SOCK_STREAM)])
"""


@pytest.fixture
def tap(tmp_path: Path, ingress: AnsweringIngress) -> Iterator[Tap]:
    with opened(ingress, tmp_path, "namespace") as tap:
        yield tap


def python(tap: Tap, folder: Path, text: str) -> str:
    return run(tap, [sys.executable, "-c", text], folder)


def test_connection_has_host_and_port(tmp_path: Path, tap: Tap, ingress: AnsweringIngress) -> None:
    urls = ["https://api.example.com/", "http://203.0.113.7:81/", "http://[::1]:9009/", "http://0.0.0.0:82/"]
    printed = run(tap, ["curl", "-sS", "--globoff", "-w", "\\n", *urls], tmp_path)
    assert places(printed)[1:] == ["http://203.0.113.7:81", "http://::1:9009", "http://127.0.0.1:82"]
    assert ingress.taken[0] == ("api.example.com", 443)


@pytest.mark.parametrize(("family", "host"), [("2", "127.0.0.1"), ("10", "::1")])
def test_subject_reaches_own_server(
    tmp_path: Path, tap: Tap, ingress: AnsweringIngress, family: str, host: str
) -> None:
    text = OWN_SERVER.replace("FAMILY", family).replace(
        "URL_HOST", f"'[{host}]'" if ":" in host else repr(host)
    )
    assert python(tap, tmp_path, text.replace("HOST", repr(host))) == "its own\n"
    assert ingress.taken == []


def test_only_dns_datagrams_are_answered(tmp_path: Path, tap: Tap) -> None:
    assert python(tap, tmp_path, UDP) == "refused\n"


def test_names_resolve_to_reserved_ipv4(tmp_path: Path, tap: Tap) -> None:
    addresses, families = python(tap, tmp_path, NAMES).splitlines()
    assert addresses == "198.18.0.1 198.18.0.1 127.0.0.1"
    assert families == "[<AddressFamily.AF_INET: 2>]"


def test_system_bundle_is_replaced_in_namespace(tmp_path: Path, tap: Tap) -> None:
    command = ["env", "-i", "curl", "-sS", "-w", "\\n", "https://api.example.com/"]
    assert places(run(tap, command, tmp_path)) == ["https://api.example.com:443"]


@pytest.mark.parametrize("client", ["urllib.request", "requests", "httpx"])
def test_python_child_without_variables_trusts_authority(tmp_path: Path, tap: Tap, client: str) -> None:
    get = "urlopen('URL').read().decode()" if client == "urllib.request" else "get('URL').text"
    child = f"import {client} as client; print(client.{get})".replace("URL", "https://api.example.com/")
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], env={{}}, check=True)"
    assert places(python(tap, tmp_path, text)) == ["https://api.example.com:443"]


def test_user_proxy_is_ignored(tmp_path: Path, tap: Tap, ingress: AnsweringIngress) -> None:
    environ = {**os.environ, "HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "example.com"}
    run(tap, ["curl", "-sS", "https://api.example.com/"], tmp_path, environ)
    assert ingress.taken == [("api.example.com", 443)]


def test_command_inherits_no_tap_state(tmp_path: Path, tap: Tap) -> None:
    text = "import os; print(os.listdir('/proc/self/fd')); print(open(f'/proc/thread-self/children').read())"
    descriptors, children, *_ = python(tap, tmp_path, text).splitlines()
    assert len(descriptors.split()) == 4  # its own three, and the listing's
    assert children.strip() == ""


def test_openssl_folder_gets_missing_bundle(tmp_path: Path) -> None:
    original, bundle = tmp_path / "ssl", tmp_path / "bundle.pem"
    original.mkdir()
    (original / "certs").symlink_to("/etc/ssl/certs")
    bundle.write_text("certificates")
    changed = with_bundle(original, tmp_path / "changed", bundle)
    assert (changed / "certs").readlink() == Path("/etc/ssl/certs")
    assert (changed / "cert.pem").read_text() == "certificates"


def test_command_exit_code(tmp_path: Path, tap: Tap) -> None:
    assert run(tap, ["sh", "-c", "sh -c 'exit 3'; echo $?"], tmp_path) == "3\n"


OUTSIDE = """
import os, subprocess, sys
outside = sys.argv[1]
entered = subprocess.run(["nsenter", "-t", outside, "-n", "true"], capture_output=True).returncode
print("network", entered == 0)
for what, read in {"fd/0": open, "environ": open, "mem": open, "root/": os.listdir}.items():
    try:
        content = read(f"/proc/{outside}/{what}")
        content = content.read(20) if what == "environ" else content
        print(what, bool(content))
    except OSError:
        print(what, False)
"""


def test_outside_processes_cannot_be_entered_or_read(tmp_path: Path, tap: Tap) -> None:
    printed = run(tap, [sys.executable, "-c", OUTSIDE, str(os.getpid())], tmp_path)
    assert printed.splitlines() == [
        f"{what} False" for what in ("network", "fd/0", "environ", "mem", "root/")
    ]


def test_private_folder_and_databases_are_hidden(tmp_path: Path, ingress: AnsweringIngress) -> None:
    secret = make_private_folder() / f"secret-{os.getpid()}.txt"
    secret.write_text("the token")
    database = tmp_path / "state" / "state.db"
    database.parent.mkdir(exist_ok=True)
    database.write_text("of the lab")
    try:
        with opened(ingress, tmp_path, "namespace") as tap:
            printed = run(
                tap, ["sh", "-c", f"ls {secret.parent}; cat {database}; cat $SSL_CERT_FILE"], tmp_path
            )
    finally:
        secret.unlink()
    assert secret.name not in printed and "of the lab" not in printed
    assert "BEGIN CERTIFICATE" in printed
