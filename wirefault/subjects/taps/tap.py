"""What a tap does to a command and to its environment. Pure."""

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

# Every variable that leads a client to some proxy, in both spellings.
PROXY_VARIABLES = tuple(
    spelling
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "GRPC_PROXY")
    for spelling in (name, name.lower())
)


@dataclass(frozen=True)
class Tap:
    """How a subject's connections come to the ingress.

    ``kind`` is None where nothing is intercepted; ``reason`` says why it is not the kind that catches more.
    ``watched``: what goes past it is looked for. ``escapes`` says what does so where nobody looks, and
    ``not_kept`` what it does not keep of what was asked of it. ``wrap`` does what ``words`` says.
    ``variables`` replace those of the environment, ``removed`` are taken out, ``appended`` are put behind
    what is there, after a space.
    """

    kind: Literal["namespace", "proxy"] | None = None
    reason: str = ""
    watched: bool = False
    escapes: str = ""
    not_kept: str = ""
    wrap: Callable[[Sequence[str], Sequence[int], int | None], list[str]] = field(
        default=lambda words, _doors, _entered: list(words)
    )
    variables: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def words(
        self, command: Sequence[str], doors: Sequence[int] = (), entered: int | None = None
    ) -> list[str]:
        """The command that runs that one behind the tap.

        ``doors``: descriptors of bound sockets, inherited by it. Where the command listens at such a socket's
        address in a network of its own (``has_doors``), it is reached through the socket from outside.
        ``entered``: an inherited descriptor that gets a byte just before the command is run, where something
        else runs first (``must_be_entered``).
        """
        return self.wrap(command, doors, entered)

    @property
    def must_be_entered(self) -> bool:
        """Whether something of the lab runs before the command, and may fail in its place."""
        return self.kind == "namespace"

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command behind the tap."""
        kept = {name: value for name, value in environ.items() if name not in self.removed}
        appended = {name: f"{kept.get(name, '')} {more}".lstrip() for name, more in self.appended.items()}
        return {**kept, **self.variables, **appended}

    @property
    def has_doors(self) -> bool:
        """Whether a server that the command is can be reached by a door alone."""
        return self.kind == "namespace"

    @property
    def notes(self) -> list[tuple[Level, str]]:
        """What a user should hear of it."""
        if self.kind is None:
            return []
        why = f", since there is no namespace tap: {self.reason}" if self.reason else ""
        said: list[tuple[Level, str]] = [("warning" if why else "info", f"tap: {self.kind}{why}")]
        return said + [("warning", text) for text in (self.escapes, self.not_kept) if text]


NO_TAP = Tap()


class TapEntry:
    """One start of a command. ``told``: the descriptor that the tap is handed, None if it needs none.

    A context manager that closes what it has opened.
    """

    def __init__(self, tap: Tap) -> None:
        self._heard: int | None = None
        self.told: int | None = None
        if tap.must_be_entered:
            self._heard, self.told = os.pipe()
            os.set_blocking(self._heard, False)

    def __enter__(self) -> TapEntry:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for descriptor in (self._heard, self.told):
            if descriptor is not None:
                os.close(descriptor)
        self._heard = self.told = None

    def was_made(self) -> bool:
        """Whether the command has begun until now."""
        if self._heard is None:
            return True
        try:
            return bool(os.read(self._heard, 1))
        except BlockingIOError:
            return False


# Where Debian, Fedora, Alpine and SUSE have the certificates that their programs trust.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
# Each replaces what its clients trust, so it names a bundle that has that, too.
_BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "DENO_CERT",
)
_ADDED_VARIABLE = "NODE_EXTRA_CA_CERTS"  # Node trusts it besides its own
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_JAVA_PASSWORD = "changeit"  # Java's own: its stores must have one, and this one has no secret


@dataclass(frozen=True)
class Trust:
    """``bundle`` is a PEM file; ``variables`` lead every runtime to it, ``java_options`` those of Java."""

    bundle: Path
    variables: Mapping[str, str]
    java_options: str = ""


def write_trust(folder: Path, authority: str, environ: Mapping[str, str]) -> Trust:
    """Writes the files of the authority, a PEM text, into the folder. Raises ``OSError``."""
    bundle, added = folder / "bundle.pem", folder / "authority.pem"
    given = [environ[name] for name in (*_BUNDLE_VARIABLES, _ADDED_VARIABLE) if environ.get(name)]
    certificates = certificates_in([*SYSTEM_BUNDLES, certifi.where(), *given], authority)
    bundle.write_text("".join(f"{certificate}\n" for certificate in certificates), encoding="ascii")
    users = environ.get(_ADDED_VARIABLE)
    extra = certificates_in([users] if users else [], authority)
    added.write_text("".join(f"{certificate}\n" for certificate in extra), encoding="ascii")
    variables = {name: str(bundle) for name in _BUNDLE_VARIABLES} | {_ADDED_VARIABLE: str(added)}
    return Trust(bundle, variables, _java_options(folder, certificates) if _has_java(environ) else "")


def certificates_in(files: Iterable[str], authority: str) -> list[str]:
    """Each certificate of the PEM files once, the authority's first; a file that cannot be read has none."""
    found = _PEM.findall(authority)
    for file in files:
        with suppress(OSError):
            found += _PEM.findall(Path(file).read_text(encoding="utf-8", errors="replace"))
    return list(dict.fromkeys(found))


def quoted(path: Path) -> str:
    """As ``NODE_OPTIONS`` and ``JAVA_TOOL_OPTIONS`` take a path."""
    return f'"{path}"' if " " in str(path) else str(path)


def _has_java(environ: Mapping[str, str]) -> bool:
    """The store takes longer to make than all the rest, so it is not made where it has no use."""
    return bool(environ.get("JAVA_HOME")) or which("java", path=environ.get("PATH", os.defpath)) is not None


def _java_options(folder: Path, certificates: list[str]) -> str:
    from cryptography import x509  # here, since it takes long to import
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entries = []
    for number, certificate in enumerate(certificates):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some roots are older than the rules for their numbers
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
_INGRESS_VARIABLE = "WIREFAULT_TAP"  # preload.cjs reads it
_SET = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_ESCAPES = (
    "what ignores proxy variables goes past the lab: Python's raw urllib3 and aiohttp by default, Go to"
    " loopback addresses, servers that MCP clients start"
)
_UNWATCHED = "; this system does not tell whether anything does"
_NOT_OFFLINE = "--offline does not hold for what goes past the lab: only the namespace tap keeps that back"


def proxy_tap(
    ingress: Address, trust: Trust, reason: str = "", *, watched: bool = False, offline: bool = False
) -> Tap:
    """A tap for the ingress at that address. ``reason``: why not the namespace tap; empty if asked for.

    ``watched``: somebody looks for what goes past it. ``offline``: the subject is to reach nothing outside.
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
        not_kept=_NOT_OFFLINE if offline else "",
        variables={**dict.fromkeys(_SET, ingress.url), **trust.variables, _INGRESS_VARIABLE: str(ingress)},
        appended={
            "NODE_OPTIONS": f"--require {quoted(PRELOAD)}",
            "JAVA_TOOL_OPTIONS": f"{java} {trust.java_options}".rstrip(),
        },
        removed=PROXY_VARIABLES,  # NO_PROXY among them
    )
