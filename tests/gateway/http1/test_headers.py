"""The four declared rewrites of a request's header block."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.gateway.lab import Lab, ask, gateway
from tests.upstream import Upstream, read_head
from wirefault.core.identity import Identity
from wirefault.gateway.endpoint import model_endpoint, rewrite, url_endpoint
from wirefault.gateway.http1.heads import read_request
from wirefault.history.events import InterceptionFailed
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Link, Links

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Listening:
    """An upstream that keeps the header blocks that it gets."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.upstream = Upstream(self._serve)
        self.authority = str(self.upstream.address).encode()

    def _serve(self, connection: socket.socket) -> None:
        self.heads.append(read_head(connection)[0])
        connection.sendall(REPLY)


@pytest.fixture
def listening() -> Iterator[Listening]:
    listening = Listening()
    yield listening
    listening.upstream.close()


@pytest.fixture
def lab(tmp_path: Path, listening: Listening) -> Iterator[Lab]:
    address = listening.upstream.address
    with gateway(tmp_path, message=address, model=address) as lab:
        yield lab


def headers_of(lab: Lab) -> bytes:
    lines = [f"{name}: {value}" for name, value in lab.identity().items()]
    return "".join(line + "\r\n" for line in [*lines, "Wirefault-Note: n", "Idempotency-Key: k"]).encode()


def test_tools_get_world_and_translator_headers(lab: Lab, listening: Listening) -> None:
    lab.begin(translator_backend="offline")
    sent_lines = b"Accept: */*\r\nWIREFAULT-WORLD: mine\r\n" + headers_of(lab)
    ask(lab.address("message"), b"POST /message?a=%20b HTTP/1.1\r\nHost: tool:1\r\n" + sent_lines + b"\r\n")
    assert listening.heads == [
        b"POST /message?a=%20b HTTP/1.1\r\nHost: " + listening.authority + b"\r\nAccept: */*\r\n"
        + headers_of(lab)
        + b"Wirefault-World: " + lab.run_id.encode() + b"/e1\r\nWirefault-Translator: offline\r\n\r\n"
    ]  # fmt: skip


def test_outside_attempt_only_host_changes(lab: Lab, listening: Listening) -> None:
    rest = b"\r\nWirefault-World: mine\r\nbaggage: a=b\r\n\r\n"
    ask(lab.address("message"), b"GET / HTTP/1.1\r\nhost:x" + rest)
    assert listening.heads == [b"GET / HTTP/1.1\r\nhost: " + listening.authority + rest]


@pytest.mark.parametrize(
    ("base", "sent_lines", "got"),
    [
        (None, "/openai/v1/chat/completions", "/openai/v1/chat/completions"),
        (None, "/v1/models?x=1", "/openai/v1/models?x=1"),
        (None, "/", "/"),
        ("", "/v1/models", "/models"),
        ("/v1", "/openai/v1/models", "/v1/models"),
        ("/a/b", "/v1?x", "/a/b?x"),
        ("/a/b", "/v1beta/models", "/v1beta/models"),
    ],
)
def test_path_prefix_of_model_link(
    lab: Lab, listening: Listening, base: str | None, sent_lines: str, got: str
) -> None:
    url = listening.upstream.address.url
    lab.begin(**({} if base is None else {"model": "compatible", "model_base_url": url + base}))
    ask(lab.address("model"), f"GET {sent_lines} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert listening.heads[0].split(b" ")[1].decode() == got


def test_scripted_model_gets_lab_headers(lab: Lab, listening: Listening) -> None:
    lab.begin()
    ask(lab.address("model"), b"GET / HTTP/1.1\r\nHost: x\r\n" + headers_of(lab) + b"\r\n")
    assert headers_of(lab) in listening.heads[0]


def test_foreign_model_gets_no_lab_headers(lab: Lab, listening: Listening) -> None:
    lab.begin(model="compatible", model_base_url=listening.upstream.address.url)
    sent_lines = headers_of(lab) + b"authorization: Bearer k\r\n"
    ask(lab.address("model"), b"GET / HTTP/1.1\r\nHost: x\r\n" + sent_lines + b"\r\n")
    remaining = b"\r\nIdempotency-Key: k\r\nauthorization: Bearer k\r\n\r\n"
    assert listening.heads == [b"GET / HTTP/1.1\r\nHost: " + listening.authority + remaining]
    assert lab.exchange().identity == "baggage"


def test_foreign_baggage_and_foreign_trace_pass() -> None:
    endpoint = url_endpoint("http://else:8080/v1", ssl.create_default_context)
    ours = Identity("r", "e", 1).headers("model")["baggage"].encode()
    block = b"GET /v1/x HTTP/1.1\r\nHost: a\r\nBaggage: t=1,%b\r\ntraceparent: %b\r\n\r\n"
    mixed = rewrite(read_request(block % (ours, b"00-ab")), endpoint, b"")
    assert mixed == b"GET /v1/x HTTP/1.1\r\nHost: else:8080\r\nBaggage: t=1\r\n\r\n"
    foreign = rewrite(read_request(block % (b"u=2", b"00-ab")), endpoint, b"")
    assert foreign.endswith(b"\r\nBaggage: t=1,u=2\r\ntraceparent: 00-ab\r\n\r\n")


def test_groq_is_reached_over_tls_under_its_own_path() -> None:
    settings = Settings(seed=1, model="groq")
    endpoint = model_endpoint(settings, ssl.create_default_context)
    assert (endpoint.host, endpoint.port, endpoint.authority) == ("api.groq.com", 443, b"api.groq.com")
    assert endpoint.base_path == "/openai/v1" and endpoint.tls is not None and not endpoint.is_lab


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out cert"
    extension = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command.split(), *extension], cwd=folder, check=True, capture_output=True)
    both = folder / "both"
    both.write_text((folder / "cert").read_text() + (folder / "key").read_text())
    return both


class Tls(Listening):
    """The same over TLS; keeps the server name of the handshake."""

    def __init__(self, certificate: Path) -> None:
        self.names: list[str | None] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.sni_callback = lambda _, name, __: self.names.append(name)
        super().__init__()

    def _serve(self, connection: socket.socket) -> None:
        # a client may be refused
        with suppress(ssl.SSLError), self.context.wrap_socket(connection, server_side=True) as secure:
            super()._serve(secure)


@pytest.mark.parametrize(
    ("host", "trusted"), [("localhost", True), ("localhost", False), ("127.0.0.1", True)]
)
def test_tls_upstreams(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str, trusted: bool
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = Tls(certificate)
    port = server.upstream.address.port
    with gateway(tmp_path) as lab:
        lab.begin(model="compatible", model_base_url=f"https://{host}:{port}/base")
        reply = ask(lab.address("model"), b"GET /v1/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if trusted and host == "localhost":  # the certificate's name
            assert reply == REPLY and server.names == ["localhost"]
            assert server.heads[0].startswith(b"GET /base/x HTTP/1.1\r\nHost: localhost:%d\r\n" % port)
        else:
            assert reply.startswith(b"HTTP/1.1 502 ") and b"certificate" in reply.lower()
            assert server.heads == []
    server.upstream.close()


def test_wired_upstream_gets_request_without_lab_headers(tmp_path: Path, listening: Listening) -> None:
    shop = Link("shop", upstream=listening.upstream.address.url + "/api")
    with gateway(tmp_path, links=Links([shop])) as lab:
        lab.begin()
        ask(lab.address("shop"), b"GET /api/v1/x HTTP/1.1\r\nHost: x\r\n" + headers_of(lab) + b"\r\n")
        assert lab.exchange().identity == "baggage"
    remaining = b"\r\nIdempotency-Key: k\r\n\r\n"
    assert listening.heads == [b"GET /api/v1/x HTTP/1.1\r\nHost: " + listening.authority + remaining]


@pytest.mark.parametrize("trusted", [True, False])
def test_wired_tls_upstream_needs_trusted_certificate(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = Tls(certificate)
    shop = Link("shop", upstream=f"https://localhost:{server.upstream.address.port}/api")
    with gateway(tmp_path, links=Links([shop])) as lab:
        lab.begin()
        reply = ask(lab.address("shop"), b"GET /api/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (reply == REPLY) is trusted
        assert lab.exchange().unavailable is not trusted
        failed = [event for event in lab.recorded() if isinstance(event, InterceptionFailed)]
    assert [(event.link, event.why) for event in failed] == (
        [] if trusted else [("shop", "upstream_untrusted")]
    )
    assert trusted or "SSL_CERT_FILE" in failed[0].text
    assert [head.split(b" ")[1] for head in server.heads] == ([b"/api/x"] if trusted else [])
    server.upstream.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_upstream_with_client_certificates_is_not_intercepted(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = Tls(certificate)
    server.context.maximum_version = version
    server.context.verify_mode = ssl.CERT_REQUIRED
    shop = Link("shop", upstream=f"https://localhost:{server.upstream.address.port}")
    with gateway(tmp_path, links=Links([shop])) as lab:
        lab.begin()
        reply = ask(lab.address("shop"), b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 502 ")
        failed = [event for event in lab.recorded() if isinstance(event, InterceptionFailed)]
    assert [(event.link, event.why) for event in failed] == [("shop", "upstream_refused")]
    assert f"--pass {failed[0].host}" in failed[0].text
    server.upstream.close()


@pytest.mark.parametrize(
    ("detail", "helps"),
    [
        ("self-signed certificate in certificate chain", True),
        ("self signed certificate", True),
        ("unable to get local issuer certificate", True),
        ("Hostname mismatch, certificate is not valid for 'shop'.", False),
        ("certificate has expired", False),
    ],
)
def test_ca_file_is_advised_only_where_useful(detail: str, helps: bool) -> None:
    text = InterceptionFailed(1.0, "e", 1, "shop", "shop:443", "upstream_untrusted", detail).text
    assert ("SSL_CERT_FILE" in text) is helps and "--pass shop:443" in text


@pytest.mark.parametrize("planted", [False, True])
def test_poisoning_faults_need_permission_in_wiring(
    tmp_path: Path, listening: Listening, planted: bool
) -> None:
    shop = Link("shop", upstream=listening.upstream.address.url, planted=planted)
    faults = '{"faults": [{"fault": "instruction", "links": ["shop"]}]}'
    with gateway(tmp_path, links=Links([shop])) as lab:
        body = lab.new_run(faults=faults)
        answer = lab.control("PUT", "/lanes/0", body)
    assert answer.status_code == (200 if planted else 409), answer.text
    assert planted or "planted: true" in answer.text
