"""The digest of a body: by it a record of what was sent is held against a record of what was received."""

from __future__ import annotations

from hashlib import blake2b


def body_hash() -> blake2b:
    """An empty hash, to be updated with the body's bytes as they come."""
    return blake2b(digest_size=8)


def body_digest(body: bytes) -> str:
    """BLAKE2b of 8 bytes, hexadecimal."""
    return blake2b(body, digest_size=8).hexdigest()
