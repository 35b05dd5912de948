"""Faults of encoded replies: cut or mislabelled compression, slow chunks and trailers."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

from tests.gateway.lab import Lab, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of
from wirefault.dialects.http import chunk

BODY = json.dumps({"items": list(range(400))}).encode()
ZIPPED = gzip.compress(BODY, mtime=0)
TRAILER = b"Trailer: X-Sum\r\n"
CHUNKS = chunk(b"one") + chunk(b"two") + chunk(b"three") + b"0\r\nX-Sum: 7\r\n\r\n"


def serve(connection: socket.socket) -> None:
    """``/zip`` is compressed, ``/plain`` is not, ``/chunks`` comes in three chunks and has a trailer."""
    for request in requests_of(connection):
        if request.target == "/zip":
            connection.sendall(sized(ZIPPED, b"Content-Encoding: gzip\r\n"))
        elif request.target == "/plain":
            connection.sendall(sized(BODY))
        else:
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + TRAILER
            connection.sendall(head + b"\r\n" + CHUNKS)


def sized(body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder: Path = tmp_path_factory.mktemp("lab")
    with Upstream(serve) as upstream, gateway(folder, search=upstream.address) as lab:
        yield lab


def begin(lab: Lab, fault: str, **parameters: Any) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": fault, "links": "search", "with": parameters}]}))


def get(lab: Lab, path: str, **headers: str) -> requests.Response:
    return requests.get(
        lab.url("search", path), headers={**lab.identity("search"), **headers}, timeout=PATIENCE_S
    )


def raw(lab: Lab, path: str, **headers: str) -> bytes:
    """The raw reply."""
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in {**lab.identity("search"), **headers}.items()]
    with dial(lab.address("search")) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        data = b""
        while piece := connection.recv(65536):
            data += piece
    return data


@pytest.mark.parametrize("path", ["/zip", "/plain"])
def test_compressed_body_is_cut_without_being_unpacked(lab: Lab, path: str) -> None:
    begin(lab, "truncate", compressed=True, content_length="corrected")
    reply = raw(lab, path, **{"Accept-Encoding": "gzip"})
    head, _, body = reply.partition(b"\r\n\r\n")
    assert body == ZIPPED[: len(ZIPPED) // 2] and b"content-encoding: gzip" in head.lower()
    (fault,) = lab.exchange().faults
    assert fault.injected and fault.evidence["of"] == len(ZIPPED)
    assert fault.evidence["content_encoding"] == "gzip"


def test_unaccepted_compression_is_not_used(lab: Lab) -> None:
    begin(lab, "truncate", compressed=True)
    assert get(lab, "/plain", **{"Accept-Encoding": "identity"}).content == BODY
    assert lab.exchange().faults[0].why_not == "nothing_to_change"


@pytest.mark.parametrize(("path", "label"), [("/zip", b""), ("/plain", b"content-encoding: gzip")])
def test_content_encoding_is_wrong(lab: Lab, path: str, label: bytes) -> None:
    begin(lab, "malformed", kind="content_encoding")
    head, _, body = raw(lab, path, **{"Accept-Encoding": "gzip"}).partition(b"\r\n\r\n")
    assert body == (ZIPPED if path == "/zip" else BODY)
    assert (b"content-encoding" in head.lower()) == bool(label) and label in head.lower()
    assert lab.exchange().faults[0].evidence["kind"] == "content_encoding"


CLIENT_VIEWS = [
    ("truncate", {"compressed": True, "content_length": "corrected"}, "/zip"),
    ("malformed", {"kind": "content_encoding"}, "/plain"),
    ("malformed", {"kind": "content_encoding"}, "/zip"),
]


@pytest.mark.slow  # one of the clients is a process
@pytest.mark.parametrize(("name", "parameters", "path"), CLIENT_VIEWS, ids=str)
@pytest.mark.parametrize("client", ["requests", "httpx", "node"])
def test_clients_cannot_decode_reply(
    lab: Lab, client: str, name: str, parameters: dict[str, Any], path: str
) -> None:
    begin(lab, name, **parameters)
    url, headers = lab.url("search", path), lab.identity("search")
    if client == "node":
        node = shutil.which("node") or pytest.skip("needs Node.js")
        text = f"fetch('{url}', {{headers: {json.dumps(headers)}}}).then(r => r.json())"
        script = f"{text}.then(() => console.log('read'), e => console.log('failed'))"
        done = subprocess.run([node, "-e", script], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.stdout.strip() == "failed"
        return
    with pytest.raises((requests.RequestException, httpx.HTTPError, ValueError)):
        if client == "requests":
            requests.get(url, headers=headers, timeout=PATIENCE_S).json()
        else:
            httpx.get(url, headers=headers, timeout=PATIENCE_S, trust_env=False).json()


def test_slow_body_keeps_chunks_and_trailers(lab: Lab) -> None:
    begin(lab, "slow_body", bytes_per_second=400, keep_chunks=True)
    head, _, body = raw(lab, "/chunks").partition(b"\r\n\r\n")
    assert body == CHUNKS
    assert b"transfer-encoding: chunked" in head.lower() and b"trailer: x-sum" in head.lower()
    (fault,) = lab.exchange().faults
    assert fault.injected and fault.evidence["keep_chunks"] and fault.shows["delay_ms"] > 0
    assert get(lab, "/chunks").text == "onetwothree"
