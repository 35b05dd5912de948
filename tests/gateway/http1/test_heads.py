"""Header blocks by RFC 9110 and 9112, compared with a slow and simple reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples
from wirefault.gateway.http1.heads import BadHead, read_reply, read_request

VALUES = {
    "Connection": ["close", "keep-alive", "Keep-Alive, CLOSE", "x", "upgrade", "", "x ,close", "closed"],
    "Content-Length": ["5", "5", "6", "007", "", "+5", "5, 5", "-1", "9" * 5000, "5_0"],
    "Transfer-Encoding": ["chunked", "Chunked", "gzip, chunked", "gzip", "chunked, gzip", "xchunked", ""],
    "Expect": ["100-continue", "100-Continue", "x", "x, 100-continue", ""],
    "Baggage": ["a=b", "wirefault.run=r", "", "a=b,c=d"],
    "Host": ["x", ""],
    "Upgrade": ["websocket"],
    "Wirefault-World": ["w"],
    "Wirefault-": [""],
    "Wirefault": ["no"],
    "Traceparent": ["00-1"],
    "X-Connection": ["close"],
}
SPACES = st.sampled_from(["", " ", "  "])
ODD_SPACES = st.sampled_from(["", " ", "  ", "\t", " \t "])
Fields = list[tuple[str, str]]


@st.composite
def lines(draw: st.DrawFn, names: tuple[str, ...] = tuple(VALUES), fold: str = " ") -> str:
    """A header line: any case, any white space around its value, folded if allowed."""
    name = draw(st.sampled_from(names))
    value = draw(st.sampled_from(VALUES[name])).replace(" ", draw(st.sampled_from([" ", fold])))
    case = draw(st.sampled_from([str, str.lower, str.upper, str.swapcase]))
    spaces = ODD_SPACES if name != "Transfer-Encoding" or fold != " " else SPACES  # llhttp refuses tabs
    return f"{case(name)}:{draw(spaces)}{value}{draw(spaces)}"


def fields(block: bytes) -> tuple[list[str], Fields]:
    """The first line's words, and the headers by their lower-case names."""
    text = block.decode().replace("\r\n ", " ")
    first, *rest = text.removesuffix("\r\n\r\n").split("\r\n")
    pairs = [line.split(":", 1) for line in rest]
    return first.split(" "), [(name.strip().lower(), value.strip()) for name, value in pairs]


def members(header_fields: Fields, wanted: str) -> list[str]:
    """The members of all headers of that name together, as a list header means."""
    listed = ",".join(value for name, value in header_fields if name == wanted)
    return [one.strip().lower() for one in listed.split(",") if one.strip()]


def keeps_alive(header_fields: Fields, version: str) -> bool:
    options = members(header_fields, "connection")
    if "close" in options or (version == "HTTP/1.0" and members(header_fields, "transfer-encoding")):
        return False
    return version == "HTTP/1.1" or "keep-alive" in options


def is_number(text: str) -> bool:
    return text.isdigit() and len(text) < 19


def plain_request(block: bytes) -> dict[str, Any] | None:
    """Return the parts of the request; None if it is refused."""
    (method, target, version), header_fields = fields(block)
    names = [name for name, _ in header_fields]
    lengths = [value for name, value in header_fields if name == "content-length"]
    codings = members(header_fields, "transfer-encoding")
    coded, empty = "transfer-encoding" in names, ("transfer-encoding", "") in header_fields
    if (
        (coded and (codings[-1:] != ["chunked"] or codings.count("chunked") > 1))
        or empty
        or names.count("host") > 1
    ):
        return None
    if len(lengths) > 1 or not all(map(is_number, lengths)) or (coded and lengths):
        return None
    new = version == "HTTP/1.1"
    return {
        "method": method,
        "target": target,
        "length": int(lengths[0]) if lengths else 0,
        "chunked": coded,
        "keep_alive": keeps_alive(header_fields, version),
        "expects_continue": new and "100-continue" in members(header_fields, "expect"),
        "upgrade": new and "upgrade" in names and "upgrade" in members(header_fields, "connection"),
        "host_at": names.index("host") + 1 if "host" in names else 0,
        "baggage_at": tuple(at for at, name in enumerate(names, 1) if name == "baggage"),
        "lab_at": tuple(at for at, name in enumerate(names, 1) if name.startswith("wirefault-")),
    }


@settings(max_examples=examples(1000), deadline=None)
@given(
    st.sampled_from(["GET", "POST", "BREW"]), st.sampled_from(["1.0", "1.1"]), st.lists(lines(), max_size=5)
)
def test_request_is_read_by_rfc(method: str, version: str, headers: list[str]) -> None:
    block = "\r\n".join([f"{method} /a?b=c HTTP/{version}", *headers, "", ""]).encode()
    plain = plain_request(block)
    if plain is None:
        with pytest.raises(BadHead):
            read_request(block)
        return
    head = read_request(block)
    assert {name: getattr(head, name) for name in plain} == plain
    values = [value for name, value in fields(block)[1] if name == "baggage"]
    assert [one.strip() for one in head.baggage.decode().split(",")] == ",".join(values).split(",")


@pytest.mark.parametrize(
    "line", ["X : a", "X: a\r\n b", "Connection:\r\n close", " X: a", "X", ": a", "X: a\nY: b", "X: a\rb"]
)
def test_ambiguous_requests_are_refused(line: str) -> None:
    with pytest.raises(BadHead):
        read_request(f"GET / HTTP/1.1\r\n{line}\r\n\r\n".encode())


def plain_reply(block: bytes) -> dict[str, Any] | None:
    (version, status, *_), header_fields = fields(block)
    codings = members(header_fields, "transfer-encoding")
    lengths = {value for name, value in header_fields if name == "content-length"}
    if not codings and (not all(map(is_number, lengths)) or len({int(one) for one in lengths}) > 1):
        return None
    return {
        "status": int(status),
        "bodiless": status.startswith("1") or status in ("204", "304"),
        "chunked": codings[-1:] == ["chunked"],
        "length": int(lengths.pop()) if lengths and not codings else None,
        "keep_alive": keeps_alive(header_fields, version),
    }


OF_REPLIES = lines(("Connection", "Content-Length", "Transfer-Encoding", "X-Connection"), "\r\n ")


@settings(max_examples=examples(1000), deadline=None)
@given(
    st.sampled_from(["1.0", "1.1"]),
    st.sampled_from(["100", "101", "200", "204", "304", "999"]),
    st.lists(OF_REPLIES, max_size=4),
    st.sampled_from([":", " :"]),
)
def test_reply_is_read_by_rfc(version: str, status: str, headers: list[str], colon: str) -> None:
    headers = [header.replace(":", colon, 1) for header in headers]
    block = "\r\n".join([f"HTTP/{version} {status} x", *headers, "", ""]).encode()
    plain = plain_reply(block)
    if plain is None:
        with pytest.raises(BadHead):
            read_reply(block)
        return
    head = read_reply(block)
    assert {name: getattr(head, name) for name in plain} == plain
