"""The certificates that a subject trusts: the system's, the user's, and that of the lab's authority."""

from __future__ import annotations

import os
import re
import ssl
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import certifi

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
