"""Fault ``memory_exhaustion``: a small compressed reply that unpacks to more than the client may use."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache, partial

from pydantic import Field

from wirefault.dialects.http import Reply
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.http.body import has_body, without_header

_MIB = 1 << 20
_SPACES = b" " * _MIB
# RFC 1952: no name, no time, unknown system
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_END = b"\x03\x00"


class MemoryExhaustion(Fault):
    """Let the agent run out of memory: its process gets a limit, and the reply unpacks to more than that.

    The body is followed by ``reply_mib`` of spaces, compressed with gzip: a client without a limit reads it
    as before. Event streams pass unchanged. During the attempt the lab's own agent runs in its own process,
    which may take ``limit_mib`` more address space than at the attempt's beginning (``RLIMIT_AS``, Linux
    only). Limit any other subject yourself (``ulimit -v``).
    """

    name = "memory_exhaustion"
    family = "model"
    where = "model"

    limit_mib: int = Field(96, ge=0, le=65_536, description="MiB that the lab's agent may take; 0: no limit")
    reply_mib: int = Field(128, ge=1, le=4096, description="MiB by which the reply grows when it is unpacked")

    @property
    def memory_limit(self) -> int:
        return self.limit_mib * _MIB

    def act(self, tried: Try) -> Act | Miss:
        accepted = [
            word.partition(";")[0].strip() for word in tried.request.header("accept-encoding").split(",")
        ]
        if tried.lines or "gzip" not in accepted:
            return Miss("nothing_to_change")
        return Act(reply=partial(self._padded, tried))

    def _padded(self, tried: Try, reply: Reply) -> Changed | Miss:
        if not has_body(tried, reply) or not reply.body or reply.stream_form is not None:
            return Miss("nothing_to_change")
        headers = (*without_header(reply, "content-encoding").headers, ("Content-Encoding", "gzip"))
        packed = replace(reply, headers=headers, body=gzip_with_spaces(reply.body, self.reply_mib))
        return Changed(
            packed, {"bytes": len(packed.body), "unpacked_mib": self.reply_mib, "limit_mib": self.limit_mib}
        )


def gzip_with_spaces(body: bytes, mib: int) -> bytes:
    """Compress the body with that many MiB of spaces after it, which takes no longer for more of them."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    start = deflate.compress(body) + deflate.flush(zlib.Z_FULL_FLUSH)
    check = zlib.crc32(body)
    for _ in range(mib):
        check = zlib.crc32(_SPACES, check)
    size = (len(body) + mib * _MIB) % (1 << 32)
    trailer = check.to_bytes(4, "little") + size.to_bytes(4, "little")
    return b"".join((_GZIP_HEADER, start, *[_packed_spaces()] * mib, _END, trailer))


@cache
def _packed_spaces() -> bytes:
    """One MiB of spaces as blocks that refer to nothing before them, and end at a byte."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(_SPACES) + deflate.flush(zlib.Z_FULL_FLUSH)
