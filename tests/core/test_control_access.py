"""Access to a control API."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wirefault.core.control_access import (
    TOKEN_DESCRIPTOR,
    TOKEN_FILE,
    ControlAccess,
    bearer,
    draw_token,
    has_token,
    inherited_token,
    token_descriptor,
)

TOKEN = draw_token()
ACCESS = ControlAccess(TOKEN, {"gateway-control"}, ("/",))
RIGHT = {"host": "127.0.0.1:7070", "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}


def code(method: str = "PUT", path: str = "/lanes/0", **headers: str) -> str | None:
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    refused = ACCESS.refusal(method, path, {**RIGHT, **changed})
    return refused.code if refused is not None else None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:7070", "[::1]:7070", "gateway-control:7070"])
def test_token_authorizes_changes(host: str) -> None:
    assert code(host=host) is None
    assert code(host=host, origin=f"http://{host}") is None
    assert code(host=host, content_type="application/json; charset=utf-8") is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": ""}, "token"),
        ({"authorization": "Bearer wrong"}, "token"),
        ({"authorization": TOKEN}, "token"),
        ({"host": "rebound.example"}, "foreign_host"),
        ({"host": "["}, "foreign_host"),
        ({"host": ""}, "foreign_host"),
        ({"origin": "http://page.example"}, "foreign_origin"),
        ({"origin": "null"}, "foreign_origin"),
        ({"origin": "http://["}, "foreign_origin"),
        ({"content_type": "text/plain"}, "not_json"),
        ({"content_type": ""}, "not_json"),
    ],
)
def test_request_without_token_is_refused(headers: dict[str, str], expected: str) -> None:
    assert code(**headers) == expected


def test_public_paths_need_no_token_but_own_host() -> None:
    assert code("GET", "/", authorization="", content_type="") is None
    assert code("GET", "/lanes/0", authorization="") == "token"
    assert code("DELETE", "/", authorization="") == "token"
    assert code("GET", "/", host="rebound.example") == "foreign_host"


def test_empty_token_authorizes_nothing() -> None:
    assert not has_token("Bearer ", "")


def test_token_is_inherited_by_descriptor() -> None:
    descriptor = token_descriptor(TOKEN)
    try:
        assert inherited_token({TOKEN_DESCRIPTOR: str(descriptor)}) == TOKEN
        assert inherited_token({TOKEN_DESCRIPTOR: str(descriptor)}) == TOKEN
    finally:
        os.close(descriptor)


def test_processes_with_shared_file_use_one_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with ThreadPoolExecutor(8) as pool:
        [token] = set(pool.map(lambda _: inherited_token({TOKEN_FILE: str(path)}), range(8)))
    assert len(token) == 64 and bearer(token) == {"Authorization": f"Bearer {token}"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_missing_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="missing the lab's token"):
        inherited_token({})
