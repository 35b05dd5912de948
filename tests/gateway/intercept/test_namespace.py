"""DNS answers of the namespace tap."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.gateway.intercept.namespace import FakeNames, queried

A, AAAA, TXT = 1, 28, 16


def question(name: str, kind: int = A) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def answered(answer: bytes) -> tuple[int, int]:
    """Return the reply's code and its number of records."""
    number, flags, _, records, *_ = struct.unpack_from("!6H", answer)
    assert number == 77
    assert flags & 0x8000
    return flags & 0xF, records


def test_name_and_address_round_trip() -> None:
    names = FakeNames()
    answers = [
        names.answer(question(name)) for name in ("api.example.com", "shop.example", "API.example.COM")
    ]
    assert [answered(answer) for answer in answers] == [(0, 1)] * 3
    addresses = [ip_address(answer[-4:]) for answer in answers]
    assert addresses[0] == addresses[2] != addresses[1]
    assert [names.name(address) for address in addresses[:2]] == ["api.example.com", "shop.example"]
    assert names.name(ip_address("203.0.113.7")) == "203.0.113.7"


@pytest.mark.parametrize("kind", [AAAA, TXT])
def test_names_have_no_other_records(kind: int) -> None:
    assert answered(FakeNames().answer(question("shop.example", kind))) == (0, 0)


def test_reverse_lookup_has_no_name() -> None:
    assert answered(FakeNames().answer(question("1.0.18.198.in-addr.arpa", 12))) == (3, 0)


def test_localhost_is_loopback() -> None:
    assert FakeNames().answer(question("localhost"))[-4:] == bytes([127, 0, 0, 1])


@pytest.mark.parametrize("code", [2, 3])
@pytest.mark.parametrize("kind", [A, AAAA])
def test_name_fails_with_code_and_without_records(code: int, kind: int) -> None:
    assert answered(FakeNames().answer(question("shop.example", kind), code)) == (code, 0)
    assert answered(FakeNames().answer(question("shop.example"))) == (0, 1)


def test_query_names_host_in_lower_case() -> None:
    assert queried(question("Shop.EXAMPLE")) == ("shop.example", True)
    assert queried(question("shop.example", AAAA)) == ("shop.example", False)
    assert queried(b"short") == ("", False)


def test_exhausted_addresses_give_error() -> None:
    names = FakeNames()
    for number in range(131070):
        names.address(f"{number}.example")
    assert answered(names.answer(question("one.more"))) == (2, 0)


@given(st.binary(max_size=80))
def test_arbitrary_datagram_is_safe(data: bytes) -> None:
    FakeNames().answer(data)
    queried(data)
