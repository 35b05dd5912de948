"""Digests by BLAKE2b: of bodies, to compare what was sent with what was received, and of names."""

from __future__ import annotations

from hashlib import blake2b
from json.encoder import encode_basestring as quote


def body_hash() -> blake2b:
    """An empty hash, to be updated with the body's bytes as they come."""
    return blake2b(digest_size=8)


def body_digest(body: bytes) -> str:
    """BLAKE2b of 8 bytes, hexadecimal."""
    return blake2b(body, digest_size=8).hexdigest()


def digest(*parts: object, size: int = 8) -> bytes:
    """BLAKE2b of the parts, unambiguous: (``"ab"``, ``"c"``) differs from (``"a"``, ``"bc"``)."""
    # the text that json.dumps(..., ensure_ascii=False) makes, at a third of its cost, for each request
    return text_digest("[" + ", ".join([quote(str(part)) for part in parts]) + "]", size)


def text_digest(text: str, size: int = 8) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def identifier(*parts: object) -> str:
    """A hexadecimal id of 16 digits, fixed by the parts."""
    return digest(*parts).hex()
