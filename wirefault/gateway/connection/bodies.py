"""What is kept of a request's and a reply's body for the record: the first part, as text, without secrets."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable

MAX_KEPT_BODY = 64 * 1024
SECRET = "[secret]"
_PLAIN = ("", "identity")
_ZIPPED = ("gzip", "x-gzip", "deflate")
# A text is searched by pattern only where one of these is in it: to look for fixed texts costs little.
_TRACES = (
    *("earer ", "Basic ", "basic ", "sk-", "sk_", "gsk_", "xai-", "xox", "AIza", "AKIA", "eyJ"),
    *("_pat_", "gho_", "ghp_", "ghs_", "ghu_", 'key"', 'Key"', 'uthorization"', 'oken"', 'ecret"'),
)
_SECRETS = re.compile(
    r"""(?P<shown>\b[Bb](?:earer|asic)\ +)(?=[A-Za-z._~+/-]*\d)[A-Za-z0-9._~+/-]{12,}=*
    | (?P<name>"(?:(?:x-)?[Aa]pi[_-]?[Kk]ey|[Aa]uthorization|(?:access|refresh|auth)[_-]?[Tt]oken
       |client[_-]?[Ss]ecret)"\s*:\s*")(?:[^"\\]|\\.)+
    | \b(?:sk-|sk_live_|sk_test_|gsk_|xai-|github_pat_|gh[opsu]_|xox[abprs]-)[A-Za-z0-9_-]{16,}
    | \bAIza[A-Za-z0-9_-]{30,}
    | \bAKIA[A-Z0-9]{16}\b
    | (?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}""",
    re.VERBOSE,
)
_IN_QUERY = re.compile(r"([?&](?:key|api_key|access_token)=)[^&]+")


class BodyStart(bytearray):
    """The first ``limit`` bytes of what a body carries. ``cut``: there were more."""

    limit: int
    cut: bool
    __slots__ = ("cut", "limit")

    def __init__(self, limit: int = MAX_KEPT_BODY) -> None:
        self.limit = limit
        self.cut = False

    def keep(self, data: bytes) -> None:
        room = self.limit - len(self)
        if len(data) <= room:
            self.extend(data)
            return
        self.cut = True
        if room > 0:
            self.extend(data[:room])

    def shorten(self) -> None:
        """Lets go of what no record keeps, and takes no more than that."""
        self.limit = MAX_KEPT_BODY
        if len(self) > MAX_KEPT_BODY:
            self.cut = True
            del self[MAX_KEPT_BODY:]


def kept_text(start: BodyStart, encoding: str, redact: Callable[[str], str]) -> tuple[str, bool]:
    """The body as text, without secrets, and whether it is not the whole.

    Of one that is no text, or compressed in a way that the gateway does not read, only its length is said.
    """
    if not start:
        return "", start.cut
    data, cut = bytes(start), start.cut
    try:
        if encoding in _ZIPPED:
            data, cut = _unzipped(data, cut)
        elif encoding not in _PLAIN:
            return f"[{encoding}, {len(data)} bytes]", True
        text = codecs.getincrementaldecoder("utf-8")().decode(data) if cut else data.decode()
    except (UnicodeDecodeError, zlib.error):
        return _binary(start), True
    return (_binary(start), True) if "\x00" in text else (without_secrets(redact(text)), cut)


def _binary(start: BodyStart) -> str:
    return f"[binary, {len(start)} bytes{' or more' if start.cut else ''}]"


def _unzipped(data: bytes, cut: bool) -> tuple[bytes, bool]:
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 32)
    plain = inflating.decompress(data, MAX_KEPT_BODY)
    return plain, cut or bool(inflating.unconsumed_tail)


def without_secrets(text: str) -> str:
    """The text without what looks like a key or a token."""
    for trace in _TRACES:
        if trace in text:
            return _SECRETS.sub(_hidden, text)
    return text


def _hidden(secret: re.Match[str]) -> str:
    return (secret["shown"] or secret["name"] or "") + SECRET


def target_without_secrets(target: str) -> str:
    """A request's target without the keys in its query."""
    if "key=" not in target and "access_token=" not in target:  # which is seen at a fraction of the cost
        return target
    return _IN_QUERY.sub(rf"\1{SECRET}", target)
