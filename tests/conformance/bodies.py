"""Generated request bodies, most of them well-formed."""

import json

from hypothesis import strategies as st

from tests.conformance.kinds import COMPARED


def words(text):
    return text.split()


KEYS = st.sampled_from(
    words("name NAME listen upstream enabled Logger toxics type stream toxicity attributes ſtream x")
    + sorted({attribute.name for toxic in COMPARED for attribute in toxic.attributes})
)
NUMBERS = st.sampled_from(
    words(
        "0 1 -1 1.5 1e3 -0 0.3 0.1234567890123 1e-7 1e21 3.5e38 5e-324 1e300 99999999999999999999"
        " 9223372036854775807 9223372036854775808 -9223372036854775808"
    )
)
TEXTS = st.sampled_from(
    words(
        r'"" "a" "latency" "noop" "upstream" "UPSTREAM" "127.0.0.1:0" "bad" "\u2028<>&" "\ud800"'
        r' "\ud83d\ude00" "é\n\u0001"'
    )
)
LITERALS = st.sampled_from(["true", "false", "null"])
LISTENS = st.lists(
    st.sampled_from(["127.0.0.1", ":", "0", ":0", "[", "]", "::1", "-1", "+0", "99999", "http", "abc"]),
    max_size=4,
).map(lambda parts: json.dumps("".join(parts)))


def objects(values, keys=KEYS):
    pairs = st.lists(st.tuples(keys, values), max_size=5)
    return pairs.map(lambda items: "{" + ", ".join(f'"{key}": {value}' for key, value in items) + "}")


def arrays(values):
    return st.lists(values, max_size=3).map(lambda items: "[" + ",".join(items) + "]")


VALUES = st.recursive(NUMBERS | TEXTS | LITERALS, lambda inner: objects(inner) | arrays(inner), max_leaves=6)


def shaped(**fields):
    """An object with these fields, most of them well-formed."""
    choices = {key: st.one_of(value, value, value, VALUES) for key, value in fields.items()}
    return st.fixed_dictionaries({}, optional=choices).map(
        lambda items: "{" + ",".join(f'"{key}":{value}' for key, value in items.items()) + "}"
    )


KINDS = st.sampled_from([toxic.kind for toxic in COMPARED])
PROXIES = shaped(
    name=st.just('"NAME"'),
    upstream=st.just('"u"'),
    listen=LISTENS | st.just('"127.0.0.1:0"'),
    enabled=LITERALS,
)
TOXICS = shaped(
    type=KINDS.map(json.dumps),
    name=TEXTS,
    stream=st.sampled_from(['"upstream"', '"downstream"']),
    toxicity=NUMBERS,
    attributes=objects(NUMBERS),
)


@st.composite
def damaged(draw, bodies):
    """A body as bytes, sometimes with bytes removed, changed or inserted."""
    body = bytearray(draw(bodies).encode())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(body)))
        put = draw(
            st.sampled_from([b"", b"{", b"]", b'"', b",", b"\\", b"\0", b"\xe9", b"0", b"e", b"-", b"'"])
        )
        body[at : at + draw(st.integers(0, 1))] = put
    return bytes(body)
