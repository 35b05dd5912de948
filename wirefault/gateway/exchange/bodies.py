"""What is kept of a request's and a reply's body for the record: the first part, as text, without secrets."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable

from wirefault.dialects.http import Reply, data_of, split_events
from wirefault.dialects.mcp import ToolAnswer, read_message
from wirefault.gateway.http1.messages import Decoder, Unreadable, content_encoding, reply_of

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


# enough to see what a fault did, since even a run that keeps no bodies keeps this of each struck reply
MAX_STRUCK = 4096
# kept besides until the record is made, so that a secret at the cut is whole when it is looked for
STRUCK_START = MAX_STRUCK + 512


class NaturalReply:
    """The ``start`` of the body as it came, and the reply's header ``block``, empty until it was there."""

    __slots__ = ("block", "start")

    def __init__(self) -> None:
        self.start = BodyStart(STRUCK_START)
        self.block = b""


MAX_KEPT = 4 << 20
Piece = tuple[float, bytes]
"""What went out at one time, on the clock of ``perf_counter``."""


class SentPieces:
    """The ``pieces``, none once they are more than 4 MiB.

    ``upstream``: the reply that came from the upstream, where a fault may have changed it and all of it came.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.upstream: Reply | None = None
        self._size = 0

    def keep(self, at: float, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MAX_KEPT:
            self.pieces.append((at, data))
        else:
            self.pieces.clear()

    def noting_upstream(self, remember: Callable[[Reply], None] | None) -> Callable[[Reply], None]:
        """Takes the upstream's reply, and gives it to ``remember`` too."""

        def note(reply: Reply) -> None:
            self.upstream = reply
            if remember is not None:
                remember(reply)

        return note


class ServerReply:
    """Keeps what the upstream's reply carries, up to 4 MiB, to be read once no more of it comes.

    ``block`` is the reply's header block, empty without one.
    """

    def __init__(self) -> None:
        self.block = b""
        self._carried = bytearray()

    def keep(self, data: bytes) -> None:
        """More of what the body carries."""
        if len(self._carried) <= MAX_KEPT:
            self._carried += data

    @property
    def tool_answer(self) -> ToolAnswer:
        """By its first response, which may be there although the rest of the reply is not.

        Empty if no response was seen whole, and for a reply that is too large or cannot be read.
        """
        if not self.block or len(self._carried) > MAX_KEPT:
            return ""
        try:
            body = Decoder(content_encoding(self.block), MAX_KEPT).feed(bytes(self._carried))
        except Unreadable:
            return ""
        in_events = reply_of(self.block).is_event_stream
        sources = map(data_of, split_events(body)) if in_events else (body,)
        messages = (message for source in sources if (message := read_message(source)))
        return next((message.tool_answer for message in messages if message.kind == "response"), "")
