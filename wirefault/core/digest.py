"""Digests by BLAKE2b: of bodies, to compare what was sent with what was received, and of names."""

from __future__ import annotations

from hashlib import blake2b
from json.encoder import encode_basestring as quote

_SIZE = 8
_EMPTY = blake2b(digest_size=_SIZE)


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
    hashed = _EMPTY.copy() if size == _SIZE else blake2b(digest_size=size)  # a copy costs less than a new one
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.digest()


def identifier(*parts: object) -> str:
    """A hexadecimal id of 16 digits, fixed by the parts."""
    return digest(*parts).hex()
