"""The user's key that signs evidence (Ed25519), and the keys that the user trusts.

The private key is in the user's private folder, or in the variable ``WIREFAULT_SIGNING_KEY``. Without both
(no home folder) it lasts as long as the process. ``trusted_keys`` in the private folder has one public key a
line, in hexadecimal; text after the key is a comment. ``cryptography`` is imported late, since it is slow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from wirefault.core.errors import InputError
from wirefault.core.files import make_private_folder, private_folder, read_shared

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_VARIABLE = "WIREFAULT_SIGNING_KEY"
_KEY_FILE, _TRUSTED_FILE = "signing_key", "trusted_keys"
_KEY_BYTES = 32
_MAX_TRUSTED_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Signature:
    """A signature and its public key, both in hexadecimal."""

    key: str
    value: str


class _Variable:
    """The private key from the environment, which no child process inherits."""

    value = ""


def take_key_variable() -> None:
    """Remove the private key from the environment and remember it. Raises ``InputError``."""
    value = os.environ.pop(KEY_VARIABLE, "").strip()
    if not value:
        return
    try:
        valid = len(bytes.fromhex(value)) == _KEY_BYTES
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{KEY_VARIABLE} must be {2 * _KEY_BYTES} hexadecimal digits: openssl rand -hex 32")
    _Variable.value = value


def sign(data: bytes) -> Signature:
    """Sign with the user's key, created if missing."""
    key = _private_key(_secret() or _new_secret())
    return Signature(_public(key), key.sign(data).hex())


def is_signed(data: bytes, signature: Signature) -> bool:
    """Return whether the signature is valid for the data. It does not check who owns the key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.key))
        key.verify(bytes.fromhex(signature.value), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def own_key() -> str:
    """Return the user's public key; empty if the user has none yet."""
    secret = _secret()
    return _public(_private_key(secret)) if secret else ""


def trusted_keys() -> frozenset[str]:
    """Return the public keys in the user's ``trusted_keys``. Raises ``InputError`` if it cannot be read."""
    try:
        folder = private_folder()
    except OSError:  # no home folder, so no file
        return frozenset()
    try:
        text = read_shared(folder, folder / _TRUSTED_FILE, _MAX_TRUSTED_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise InputError(f"cannot read {_TRUSTED_FILE}: {error}") from None
    lines = (line.split() for line in text.splitlines())
    return frozenset(words[0].lower() for words in lines if words and not words[0].startswith("#"))


def _secret() -> bytes:
    """Return the existing private key; empty if missing."""
    if _Variable.value:
        return bytes.fromhex(_Variable.value)
    try:
        folder = private_folder()
        secret = read_shared(folder, folder / _KEY_FILE, _KEY_BYTES)
    except OSError:
        return b""
    return secret if len(secret) == _KEY_BYTES else b""


def _new_secret() -> bytes:
    """Create the user's key. Without a private folder it lasts as long as this process."""
    secret = _ephemeral_secret()
    try:
        path = make_private_folder() / _KEY_FILE
        temporary = path.with_name(f".{_KEY_FILE}.{os.urandom(4).hex()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secret)
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError:
        return secret
    return _secret() or secret


@cache
def _ephemeral_secret() -> bytes:
    return os.urandom(_KEY_BYTES)


@cache
def _private_key(secret: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()
