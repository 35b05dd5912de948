"""How a tap changes a command and its environment; the proxy tap.

The proxy tap sets proxy variables, certificate variables and a preload for Node.
"""

from __future__ import annotations

import os
import re
import ssl
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import Literal

import certifi

from wirefault.core.sockets import Address
from wirefault.history.events import Level

# All variables that name a proxy, in both spellings.
PROXY_VARIABLES = tuple(
    spelling
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "GRPC_PROXY")
    for spelling in (name, name.lower())
)


# pyenv, uv and the like put another folder first on PATH; each Python process puts the launchers first again
LAUNCHERS_VARIABLE = "WIREFAULT_LAUNCHERS"


@dataclass(frozen=True)
class Tap:
    """How a subject's connections reach the ingress."""

    # None where nothing is intercepted
    kind: Literal["namespace", "proxy"] | None = None
    # why it is not the namespace tap; empty if asked for
    reason: str = ""
    # whether connections that bypass it are detected
    watched: bool = False
    # which connections bypass it undetected
    escapes: str = ""
    # options that it cannot enforce
    limits: str = ""
    # implements ``words``
    wrap: Callable[[Sequence[str], Sequence[int], int | None], list[str]] = field(
        default=lambda words, _forwards, _entered: list(words)
    )
    # replace variables of the environment
    variables: Mapping[str, str] = field(default_factory=dict)
    # appended to variables, after a space
    appended: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    # a folder that comes first on ``PATH``
    launchers: Path | None = None

    def words(
        self, command: Sequence[str], forwards: Sequence[int] = (), started_fd: int | None = None
    ) -> list[str]:
        """Return the command that runs this one behind the tap.

        ``forwards`` are descriptors of bound sockets. Where the command has its own network
        (``forwards_ports``) and listens there at such a socket's address, it is reached from outside through
        the socket. ``started_fd`` is a descriptor that gets a byte just before the command runs, where
        something else runs first (``signals_start``).
        """
        return self.wrap(command, forwards, started_fd)

    @property
    def signals_start(self) -> bool:
        """Whether a program of the lab runs before the command, and may fail before it."""
        return self.kind == "namespace"

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a command behind the tap."""
        others = {name: value for name, value in environ.items() if name not in self.removed}
        appended = {name: f"{others.get(name, '')} {more}".lstrip() for name, more in self.appended.items()}
        if self.launchers is not None:
            others["PATH"] = f"{self.launchers}{os.pathsep}{others.get('PATH', os.defpath)}"
            others[LAUNCHERS_VARIABLE] = str(self.launchers)
        return {**others, **self.variables, **appended}

    @property
    def forwards_ports(self) -> bool:
        """Whether a server behind the tap is reached only through forwards."""
        return self.kind == "namespace"

    @property
    def notes(self) -> list[tuple[Level, str]]:
        """Notes for the user, with their levels."""
        if self.kind is None:
            return []
        why = f", since the namespace tap is unavailable: {self.reason}" if self.reason else ""
        notes: list[tuple[Level, str]] = [("warning" if why else "info", f"tap: {self.kind}{why}")]
        return notes + [("warning", text) for text in (self.escapes, self.limits) if text]


NO_TAP = Tap()


class StartSignal:
    """Whether one start of a command got as far as the command itself. Closes its descriptors as a context
    manager.

    ``fd`` is the descriptor for the tap, None if it needs none.
    """

    def __init__(self, tap: Tap) -> None:
        self._read_end: int | None = None
        self.fd: int | None = None
        if tap.signals_start:
            self._read_end, self.fd = os.pipe()
            os.set_blocking(self._read_end, False)

    def __enter__(self) -> StartSignal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for descriptor in (self._read_end, self.fd):
            if descriptor is not None:
                os.close(descriptor)
        self._read_end = self.fd = None

    def was_received(self) -> bool:
        """Whether the command has started."""
        if self._read_end is None:
            return True
        try:
            return bool(os.read(self._read_end, 1))
        except BlockingIOError:
            return False


# Certificates that programs trust on Debian, Fedora, Alpine and SUSE.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
# Each replaces its clients' trusted certificates, so the bundle contains those, too.
_BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "DENO_CERT",
)
_ADDED_VARIABLE = "NODE_EXTRA_CA_CERTS"  # Node adds it to its own
_PHP_VARIABLE = "PHP_INI_SCAN_DIR"
_PHP_INI = "curl.cainfo=${SSL_CERT_FILE}\nopenssl.cafile=${SSL_CERT_FILE}\n"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_JAVA_PASSWORD = "changeit"  # Java's default: a store must have one, and this store has no secret


@dataclass(frozen=True)
class Trust:
    """Certificates that a subject trusts: the system's, the user's and the lab authority's."""

    # a PEM file
    bundle: Path
    # point every runtime to it
    variables: Mapping[str, str]
    java_options: str = ""


def write_trust(folder: Path, authority: str, environ: Mapping[str, str]) -> Trust:
    """Write the trust files to the folder; ``authority`` is a PEM text. Raises ``OSError``."""
    bundle, added = folder / "bundle.pem", folder / "authority.pem"
    users_files = [environ[name] for name in (*_BUNDLE_VARIABLES, _ADDED_VARIABLE) if environ.get(name)]
    certificates = certificates_in([*SYSTEM_BUNDLES, certifi.where(), *users_files], authority)
    bundle.write_text("".join(f"{certificate}\n" for certificate in certificates), encoding="ascii")
    users = environ.get(_ADDED_VARIABLE)
    extra = certificates_in([users] if users else [], authority)
    added.write_text("".join(f"{certificate}\n" for certificate in extra), encoding="ascii")
    variables = {name: str(bundle) for name in _BUNDLE_VARIABLES} | {_ADDED_VARIABLE: str(added)}
    (folder / "php.ini").write_text(_PHP_INI, encoding="ascii")
    variables[_PHP_VARIABLE] = _php_folders(folder, environ.get(_PHP_VARIABLE))
    return Trust(bundle, variables, _java_options(folder, certificates) if _has_java(environ) else "")


def certificates_in(files: Iterable[str], authority: str) -> list[str]:
    """Return each certificate of the PEM files once, the authority's first; unreadable files are skipped."""
    certificates = _PEM.findall(authority)
    for file in files:
        with suppress(OSError):
            certificates += _PEM.findall(Path(file).read_text(encoding="utf-8", errors="replace"))
    return list(dict.fromkeys(certificates))


def quoted(path: Path) -> str:
    """Quote a path for ``NODE_OPTIONS`` and ``JAVA_TOOL_OPTIONS``."""
    return f'"{path}"' if " " in str(path) else str(path)


def _php_folders(folder: Path, users: str | None) -> str:
    """PHP's folders of ini files and this one. An empty entry is PHP's own; an empty list has none."""
    return str(folder) if users == "" else f"{users or ''}{os.pathsep}{folder}"


def _has_java(environ: Mapping[str, str]) -> bool:
    """Whether Java is installed; its store takes longer to make than everything else."""
    return bool(environ.get("JAVA_HOME")) or which("java", path=environ.get("PATH", os.defpath)) is not None


def _java_options(folder: Path, certificates: list[str]) -> str:
    from cryptography import x509  # slow to import
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entries = []
    for number, certificate in enumerate(certificates):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some roots predate the rules for serial numbers
            parsed = x509.load_der_x509_certificate(ssl.PEM_cert_to_DER_cert(certificate))
            entries.append(pkcs12.PKCS12Certificate(parsed, f"wirefault-{number}".encode()))
    store = folder / "trust.p12"
    store.write_bytes(
        pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_JAVA_PASSWORD.encode()))
    )
    return (
        f"-Djavax.net.ssl.trustStore={quoted(store)} -Djavax.net.ssl.trustStoreType=PKCS12"
        f" -Djavax.net.ssl.trustStorePassword={_JAVA_PASSWORD}"
    )


PRELOAD = Path(__file__).with_name("preload.cjs")
# also runs inside Python subjects
FUNCTIONS = Path(__file__).parents[1] / "functions"
_INGRESS_VARIABLE = "WIREFAULT_TAP"  # preload.cjs reads it
_SET = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_ESCAPES = (
    "clients that ignore proxy variables bypass the lab: Python's raw urllib3 and aiohttp by default, PHP's"
    " streams (file_get_contents), Go to loopback addresses, servers that MCP clients start"
)
_UNWATCHED = "; this system cannot detect that"
_NOT_OFFLINE = "--offline does not stop connections that bypass the lab: only the namespace tap does"


def proxy_tap(
    ingress: Address, trust: Trust, reason: str = "", *, watched: bool = False, offline: bool = False
) -> Tap:
    """Return a tap for the ingress at that address.

    ``reason``: why not the namespace tap; empty if asked for. ``watched``: connections that bypass it are
    detected. ``offline``: the subject must reach nothing outside.
    """
    java = (
        f"-Dhttp.proxyHost={ingress.host} -Dhttp.proxyPort={ingress.port}"
        f" -Dhttps.proxyHost={ingress.host} -Dhttps.proxyPort={ingress.port} -Dhttp.nonProxyHosts="
    )
    return Tap(
        kind="proxy",
        reason=reason,
        watched=watched,
        escapes="" if watched else _ESCAPES + _UNWATCHED,
        limits=_NOT_OFFLINE if offline else "",
        variables={**dict.fromkeys(_SET, ingress.url), **trust.variables, _INGRESS_VARIABLE: str(ingress)},
        appended={
            "NODE_OPTIONS": f"--require {quoted(PRELOAD)}",
            "JAVA_TOOL_OPTIONS": f"{java} {trust.java_options}".rstrip(),
        },
        removed=PROXY_VARIABLES,  # NO_PROXY among them
    )
