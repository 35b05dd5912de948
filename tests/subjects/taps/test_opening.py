"""The files of a tap, and the variables of its subject."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import behind, opened
from wirefault.core.files import private_folder
from wirefault.core.sockets import Address
from wirefault.settings.settings import SettingsError
from wirefault.subjects.taps.opening import open_tap
from wirefault.subjects.taps.tap import NO_TAP, write_trust
from wirefault.wiring.wiring import NO_WIRING, InterceptSpec


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))


def test_tap_files_are_private_keyless_and_removed(tmp_path: Path, ingress: AnsweringIngress) -> None:
    with opened(ingress, tmp_path, "proxy") as tap:
        folder = Path(tap.variables["SSL_CERT_FILE"]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not any(b"PRIVATE KEY" in file.read_bytes() for file in folder.iterdir())
    assert not folder.exists()


def test_sweep_removes_only_killed_runs_folders(tmp_path: Path, ingress: AnsweringIngress) -> None:
    with opened(ingress, tmp_path, "proxy") as first:
        left = private_folder() / "tap-left"
        left.mkdir()
        with opened(ingress, tmp_path, "proxy"):
            assert not left.exists()
            assert Path(first.variables["SSL_CERT_FILE"]).exists()


def test_bundle_has_user_system_and_lab_certificates(tmp_path: Path, ingress: AnsweringIngress) -> None:
    users = tmp_path / "users.pem"
    users.write_text("-----BEGIN CERTIFICATE-----\nusers\n-----END CERTIFICATE-----\n")
    environ = {"REQUESTS_CA_BUNDLE": str(users), "NODE_EXTRA_CA_CERTS": str(users), "PATH": ""}
    trust = write_trust(tmp_path, ingress.authority.pem, environ)
    bundle, added = trust.bundle.read_text(), Path(trust.variables["NODE_EXTRA_CA_CERTS"]).read_text()
    assert bundle.count("BEGIN CERTIFICATE") > 50
    assert added.count("BEGIN CERTIFICATE") == 2
    for text in (bundle, added):
        assert "\nusers\n" in text
        assert ingress.authority.pem.strip() in text


@pytest.mark.parametrize(
    ("users", "folders"), [(None, ":{}"), ("/etc/php/mine", "/etc/php/mine:{}"), ("", "{}")]
)
def test_php_reads_bundle_from_ini_file(
    tmp_path: Path, ingress: AnsweringIngress, users: str | None, folders: str
) -> None:
    environ = {"PATH": ""} if users is None else {"PATH": "", "PHP_INI_SCAN_DIR": users}
    trust = write_trust(tmp_path, ingress.authority.pem, environ)
    assert trust.variables["PHP_INI_SCAN_DIR"] == folders.format(tmp_path)
    lines = (tmp_path / "php.ini").read_text(encoding="ascii").splitlines()
    assert lines == ["curl.cainfo=${SSL_CERT_FILE}", "openssl.cafile=${SSL_CERT_FILE}"]


def test_user_options_are_kept(tmp_path: Path, ingress: AnsweringIngress) -> None:
    environ = {**os.environ, "NODE_OPTIONS": "--no-warnings", "JAVA_TOOL_OPTIONS": "-Xmx1g", "NO_PROXY": "*"}
    with opened(ingress, tmp_path, "proxy", environ) as tap:
        behind_it = tap.environ(environ)
    assert behind_it["NODE_OPTIONS"].startswith("--no-warnings --require /")
    assert behind_it["JAVA_TOOL_OPTIONS"].startswith(f"-Xmx1g -Dhttp.proxyHost={ingress.address.host} ")
    assert "NO_PROXY" not in behind_it
    assert behind_it["https_proxy"] == behind_it["ALL_PROXY"] == ingress.address.url


def test_tap_needs_interception(tmp_path: Path, ingress: AnsweringIngress) -> None:
    configuration = behind(ingress.address, ingress.topology, tmp_path).configuration
    with open_tap(NO_WIRING, configuration) as tap:
        assert tap is NO_TAP
    assert NO_TAP.words(["a"]) == ["a"]
    assert NO_TAP.environ({"A": "b"}) == {"A": "b"}
    assert NO_TAP.notes == []


def test_remote_ingress_has_no_namespace_tap(tmp_path: Path, ingress: AnsweringIngress) -> None:
    configuration = behind(ingress.address, tmp_path / "other.json", tmp_path).configuration
    wiring = replace(NO_WIRING, intercept=InterceptSpec())
    with open_tap(wiring, configuration) as tap:
        assert (tap.kind, tap.reason) == ("proxy", "the lab's ingress does not run on this machine")


def test_gateway_without_authority_is_error(tmp_path: Path, ingress: AnsweringIngress) -> None:
    wired = behind(ingress.address, ingress.topology, tmp_path)
    wired.addresses["control"] = Address("127.0.0.1", 1)
    wiring = replace(NO_WIRING, intercept=InterceptSpec())
    with (
        pytest.raises(SettingsError, match="cannot read the certificate"),
        open_tap(wiring, wired.configuration),
    ):
        pass
