"""The certificate authority for intercepted hosts: made in memory, gone with the gateway's process."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache, partial
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Some clients reject certificates that are valid for more than 398 days; a client's clock may be behind.
_VALIDITY = timedelta(days=397)
_CLOCK_SKEW = timedelta(days=1)
_MAX_HOSTS = 1024
_MAX_COMMON_NAME = 64


class Authority:
    """Certifies any host for one lab. ``now`` returns the current time with its zone.

    The private key is only in this object, and reaches no file, log or record. ``pem`` is the certificate
    that a client trusts in order to be intercepted.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Wirefault lab authority")])
        self._certificate = self._new_certificate()
        self.pem = self._certificate.public_bytes(Encoding.PEM).decode("ascii")
        # loading a context takes milliseconds; the hosts that one subject calls are few
        self.context = lru_cache(_MAX_HOSTS)(self._context)

    def _new_certificate(self) -> x509.Certificate:
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(certifies=True), critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = self._now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _VALIDITY - _CLOCK_SKEW)
        )

    def mint(self, host: str) -> tuple[bytes, bytes]:
        """Return a new certificate for that name or IP address, and its key, as PEM.

        Raises ``ValueError`` for an invalid host.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        common_name = x509.NameAttribute(NameOID.COMMON_NAME, host[:_MAX_COMMON_NAME] or "?")
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(x509.Name([common_name]), key.public_key())
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certifies=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), private

    def _context(self, host: str, http2: bool = False) -> ssl.SSLContext:
        """Return the TLS settings of a server of that name or IP address; it speaks HTTP/1.1 only. Cached.

        ``http2``: it speaks HTTP/2 only. A client that names another host gets that host's certificate.
        Raises ``ValueError`` for an invalid host.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2" if http2 else "http/1.1"])
        # One session ticket instead of two: each costs time in every handshake, and few clients use it. With
        # none, a client that leaves Nagle's algorithm on waits 40 ms before its first request.
        context.num_tickets = 1
        context.sni_callback = partial(self._choose, http2)
        _load(context, *self.mint(host))
        return context

    def _choose(
        self, http2: bool, connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext
    ) -> int | None:
        """Select the certificate of the host that the client names. Returns the alert to end with, or
        None.
        """
        if name:
            try:
                connection.context = self.context(name.lower(), http2)
            except ValueError:
                return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        return None


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, certifies: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certifies,
        key_cert_sign=certifies,
        crl_sign=certifies,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load both through pipes: ``ssl`` takes only paths, and the key must not be in a file."""
    ends = [_readable(certificate), _readable(key)]
    try:
        context.load_cert_chain(*(f"/dev/fd/{end}" for end in ends))
    finally:
        for end in ends:
            os.close(end)


def _readable(data: bytes) -> int:
    """Return the reading end of a pipe with these bytes; a pipe holds at least 16 KiB."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
