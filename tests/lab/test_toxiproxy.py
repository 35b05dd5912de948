"""The Toxiproxy that a lab uses, and whether a responding one is its own."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.servers import embedded_server, real_server_path
from tests.support import until
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.lab.launcher import Lab
from wirefault.lab.process import LabError
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy, has_mark
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import SettingsError


@pytest.mark.parametrize(
    ("wanted", "environ", "choice"),
    [
        ("embedded", {"TOXIPROXY_URL": "http://127.0.0.1:1"}, Choice("embedded")),
        ("auto", {"PATH": "/nowhere"}, Choice("embedded")),
        ("auto", {"TOXIPROXY_URL": "http://localhost:8474/"}, Choice("url", "http://localhost:8474")),
        ("http://127.0.0.1:99", {}, Choice("url", "http://127.0.0.1:99")),
    ],
)
def test_requested_server_is_chosen(wanted: str, environ: dict[str, str], choice: Choice) -> None:
    assert choose_toxiproxy(wanted, environ) == choice


def test_unresponsive_server_is_reported_at_once(tmp_path: Path) -> None:
    with bind(FREE) as taken:  # no HTTP server there
        url = bound_address(taken).url
    lab = Lab(load_configuration({"STATE_DB": str(tmp_path / "state.db")}), Choice("url", url))
    with pytest.raises(LabError, match=f"no Toxiproxy answers at {url}; start it"), lab:
        pass


def test_server_on_path_precedes_embedded_one(tmp_path: Path) -> None:
    executable = tmp_path / "toxiproxy-server"
    executable.touch(0o755)
    assert choose_toxiproxy("auto", {"PATH": str(tmp_path)}) == Choice(
        "executable", executable=str(executable)
    )


@pytest.mark.parametrize("url", ["nonsense", "https://127.0.0.1:8474", "http://", "http://10.1.2.3:8474"])
def test_unusable_server_is_named(url: str) -> None:
    with pytest.raises(SettingsError, match="--toxiproxy="):
        choose_toxiproxy(url, {})
    with pytest.raises(SettingsError, match="TOXIPROXY_URL="):
        choose_toxiproxy("auto", {"TOXIPROXY_URL": url})


def test_server_without_mark_is_foreign() -> None:
    with embedded_server() as url:
        assert has_mark(url, "lab-1_mark") is False
    closed = bind(FREE)
    url = bound_address(closed).url
    closed.close()
    assert has_mark(url, "lab-1_mark") is None


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    return replace(
        load_configuration(os.environ),
        logs=tmp_path / "logs",
        state=tmp_path / "state" / "state.db",
        effects=tmp_path / "state" / "effects.db",
    )


THIEF = """#!{python}
import os, sys
first = "{flag}"
arguments = sys.argv[1:]
if not os.path.exists(first):
    open(first, "w").close()
    del arguments[arguments.index("-config"):][:2]
    arguments = arguments[:arguments.index("-config")] if "-config" in arguments else arguments
os.execv("{server}", ["{server}", *arguments])
"""


def test_port_taken_by_other_server_is_replaced(tmp_path: Path, configuration: Configuration) -> None:
    server = real_server_path()
    if server is None:
        pytest.skip("no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH")
    executable = tmp_path / "toxiproxy-server"
    executable.write_text(THIEF.format(python=sys.executable, flag=tmp_path / "first", server=server))
    executable.chmod(0o755)
    with Lab(configuration, Choice("executable", executable=str(executable))) as lab:
        assert (tmp_path / "first").exists()
        assert has_mark(lab.topology.toxiproxy, f"{lab.topology.lab_id}_mark") is False  # ours, unmarked
        assert lab.dead() == []
    assert list((tmp_path / "state").glob("lab-*")) == []


def test_failed_server_is_named_with_last_output(tmp_path: Path, configuration: Configuration) -> None:
    executable = tmp_path / "toxiproxy-server"
    executable.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    executable.chmod(0o755)
    lab = Lab(configuration, Choice("executable", executable=str(executable)))
    with pytest.raises(LabError, match=r"(?s)toxiproxy ended with exit code 3.*no such library"), lab:
        pass
    until(lambda: lab.dead() == [])
