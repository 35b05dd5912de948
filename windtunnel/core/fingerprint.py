"""The fingerprint of a request: what is asked for, whatever the order in which it is written. Pure."""

from __future__ import annotations

import json
from hashlib import blake2b
from json.encoder import encode_basestring as quote
from urllib.parse import parse_qsl

from windtunnel.core.digest import text_digest


def fingerprint(method: str, target: str, body: bytes = b"") -> str:
    """What is asked for: method, path and canonical arguments, hashed.

    ``target`` is the request target (path and query). Query parameters are sorted; a JSON body is
    taken without regard to the order of its keys or its white space, any other body byte by byte.
    """
    path, _, text = target.partition("?")
    query = str(sorted(_query(text))) if text else "[]"
    asked = f"[{quote(method.upper())}, {quote(path)}, {quote(query)}, {quote(_canonical(body))}]"
    return text_digest(asked).hex()  # digest(method, path, query, body)


def _query(text: str) -> list[tuple[str, str]]:
    if "%" in text:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    # the same, at a fifth of its cost: every request pays
    parts = text.replace("+", " ").split("&")
    return [(name, value) for part in parts if part for name, _, value in (part.partition("="),)]


def _canonical(body: bytes) -> str:
    if not body:
        return ""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except (ValueError, RecursionError):  # the latter: nested too deep
        return blake2b(body, digest_size=8).hexdigest()
