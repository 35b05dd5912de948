"""Signatures of toxics, over plain HTTP and TLS"""

from collections.abc import Iterator

import pytest

from tests.conformance.servers import Proxied
from tests.conformance.signatures import REPLY_BYTES, TRANSPORTS, OneTry
from tests.gateway.lab import gateway
from tests.gateway.scripted import ScriptedUpstream, sized
from wirefault.judging.evidence.gather import observed_try
from wirefault.judging.evidence.toxics import shown_by_connections
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic

by_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator:
    service = ScriptedUpstream(sized(b"x" * REPLY_BYTES))
    folder = tmp_path_factory.mktemp("signatures")
    with gateway(folder, search=service.upstream.address, intercepts=True) as lab:
        yield lab
    service.upstream.close()


@pytest.fixture
def proxied(client, name, lab):
    lab.begin()
    return Proxied(client, client.ensure_proxy(name, "127.0.0.1:0", str(lab.topology.gateways["search"])))


def one_try(proxied, lab, transport):
    host, _, port = proxied.state.listen.rpartition(":")
    return OneTry(lab, (host, int(port)), transport)


def shows(planned, seen):
    known = toxic(planned.kind)
    return known.observed(planned.stream, known.complete(planned.attributes), observed_try(seen.tried))


SHOWN = [
    *[("latency", stream, {"latency": 80}) for stream in ("upstream", "downstream")],
    *[("latency", stream, {"latency": 5000}) for stream in ("upstream", "downstream")],
    *[("timeout", stream, {"timeout": 80}) for stream in ("upstream", "downstream")],
    *[("timeout", stream, {"timeout": 0}) for stream in ("upstream", "downstream")],
    *[("reset_peer", stream, {"timeout": 0}) for stream in ("upstream", "downstream")],
    *[("reset_peer", stream, {"timeout": 80}) for stream in ("upstream", "downstream")],
    *[("limit_data", stream, {"bytes": 20}) for stream in ("upstream", "downstream")],
    ("limit_data", "upstream", {"bytes": 2000}),
    ("limit_data", "downstream", {"bytes": 4000}),
    ("bandwidth", "upstream", {"rate": 1}),
    ("bandwidth", "downstream", {"rate": 20}),
    ("slicer", "upstream", {"average_size": 100, "delay": 100_000}),
    ("slicer", "downstream", {"average_size": 100, "delay": 4000}),
]
IDS = ["-".join((kind, stream, *map(str, values.values()))) for kind, stream, values in SHOWN]
OF_A_CONNECTION = ("latency", "timeout", "reset_peer", "limit_data")


@by_each_transport
@pytest.mark.parametrize(("kind", "stream", "attributes"), SHOWN, ids=IDS)
def test_records_of_client_and_gateway_show_toxic(proxied, lab, kind, stream, attributes, transport):
    """Records of client and gateway show the toxic: plain HTTP, fresh TLS, kept-alive TLS"""
    tried = one_try(proxied, lab, transport)
    proxied.add(kind, stream, **attributes)
    made = tried.make()
    proxied.remove()
    seen = tried.seen(*made)
    planned = PlannedToxic("search", kind, stream, attributes)
    assert shows(planned, seen), observed_try(seen.tried)
    if kind in OF_A_CONNECTION and transport != "kept":
        signature = shown_by_connections(planned, [seen.connection], seen.exchanges)
        assert signature, (seen.connection, seen.exchanges)


@by_each_transport
def test_clean_try_shows_no_toxic(proxied, lab, transport):
    # a busy machine alone delays a try now and then by as much as a toxic does, but not three in a row
    for _ in range(3):
        lab.begin()
        tried = one_try(proxied, lab, transport)
        seen = tried.seen(*tried.make())
        assert seen.tried.error is None
        expected_tls = "" if transport == "plain" else transport
        assert [exchange.tls for exchange in seen.exchanges][-1:] == [expected_tls]
        planned = [PlannedToxic("search", kind, stream, attributes) for kind, stream, attributes in SHOWN]
        signatures = [
            toxic
            for toxic in planned
            if shows(toxic, seen) or shown_by_connections(toxic, [seen.connection], seen.exchanges)
        ]
        if not signatures:
            return
    pytest.fail(f"without a toxic, three tries in a row show {signatures}")


@by_each_transport
def test_disabled_proxy_shows_as_refused(proxied, lab, transport):
    planned = PlannedToxic("search", "down", "downstream", {})
    proxied.client.set_enabled(proxied.name, False)
    tried = one_try(proxied, lab, "plain" if transport == "kept" else transport)
    seen = tried.seen(*tried.make())
    assert shows(planned, seen) and shown_by_connections(planned, [seen.connection], [])
