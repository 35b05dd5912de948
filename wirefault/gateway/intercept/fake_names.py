"""Names as the namespace tap has them answered: each gets an address that tells the name again. Pure."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from wirefault.core.sockets import LOOPBACK

# set apart for measurements between networks (RFC 2544): no server has such an address
_RANGE = IPv4Network("198.18.0.0/15")
_HEADER = struct.Struct("!6H")
_ADDRESS_RECORD = struct.Struct("!3HIH")
_A, _IN = 1, 1
_TTL_S = 3600
_NAME_OF_QUESTION = 0xC00C
_ANSWER_FLAGS, _RECURSION_ASKED = 0x8080, 0x0100  # an answer, of a server that asks others
_BAD_FORMAT, _NO_ADDRESS_LEFT, _NO_SUCH_NAME = 1, 2, 3


class FakeNames:
    """The names that were asked for, and the addresses that were given for them."""

    def __init__(self) -> None:
        self._addresses: dict[str, IPv4Address] = {}
        self._names: dict[IPv4Address, str] = {}

    def address(self, name: str) -> IPv4Address:
        """Always the same for that name. Raises ``LookupError`` when none is left."""
        if name == "localhost" or name.endswith(".localhost"):
            return IPv4Address(LOOPBACK)
        if name not in self._addresses:
            number = len(self._addresses) + 1
            if number >= _RANGE.num_addresses - 1:
                raise LookupError(name)
            address = self._addresses[name] = _RANGE[number]
            self._names[address] = name
        return self._addresses[name]

    def name(self, address: IPv4Address | IPv6Address) -> str:
        """The name for which that address was given; of any other the address itself."""
        return self._names.get(address, str(address)) if isinstance(address, IPv4Address) else str(address)

    def answer(self, query: bytes) -> bytes:
        """The reply to a DNS query for one name; empty for what is none.

        There are addresses of IPv4 alone: of any other kind of record a name has none.
        """
        if len(query) < _HEADER.size:
            return b""
        number, flags, questions, *_ = _HEADER.unpack_from(query)
        if flags & 0x8000:  # itself an answer
            return b""
        try:
            name, end = _name_at(query, _HEADER.size)
            kind, network = struct.unpack_from("!2H", query, end)
        except (IndexError, ValueError, struct.error):
            return _HEADER.pack(number, _ANSWER_FLAGS | _BAD_FORMAT, 0, 0, 0, 0)
        code, record = 0, b""
        if name.endswith(".arpa") or questions != 1:
            code = _NO_SUCH_NAME
        elif (kind, network) == (_A, _IN):
            try:
                address = self.address(name).packed
                record = _ADDRESS_RECORD.pack(_NAME_OF_QUESTION, _A, _IN, _TTL_S, len(address)) + address
            except LookupError:
                code = _NO_ADDRESS_LEFT
        flags = _ANSWER_FLAGS | flags & _RECURSION_ASKED | code
        question = query[_HEADER.size : end + 4]
        return _HEADER.pack(number, flags, 1, bool(record), 0, 0) + question + record


def _name_at(query: bytes, at: int) -> tuple[str, int]:
    """The name, in small letters, and where it ends. Raises ``IndexError`` or ``ValueError``."""
    labels = []
    while length := query[at]:
        if length > 63 or at + length >= len(query):
            raise ValueError("no label")
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    if not labels:
        raise ValueError("the root has no address")
    return ".".join(labels), at + 1
