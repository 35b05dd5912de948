"""Signatures of the toxics of the embedded server, over plain HTTP, fresh TLS and kept-alive TLS."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.conformance.servers import Proxied, embedded_server
from tests.conformance.signatures import REPLY_BYTES, TRANSPORTS, OneTry
from tests.gateway.lab import gateway
from tests.gateway.scripted import ScriptedUpstream, sized
from wirefault.judging.evidence.gather import observed_try
from wirefault.judging.evidence.toxics import shown_by_connections
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic


@pytest.fixture(scope="module")
def client() -> Iterator[ToxiproxyClient]:
    with embedded_server() as url, ToxiproxyClient(url) as client:
        yield client


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator:
    service = ScriptedUpstream(sized(b"x" * REPLY_BYTES))
    folder = tmp_path_factory.mktemp("signatures")
    with gateway(folder, search=service.upstream.address, intercepts=True) as lab:
        yield lab
    service.upstream.close()


@pytest.fixture
def proxied(client, lab) -> Iterator[Proxied]:
    lab.begin()
    gateway_address = str(lab.topology.gateways["search"])
    yield Proxied(client, client.ensure_proxy("own", "127.0.0.1:0", gateway_address))
    client.delete_proxy("own")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_unaccepted_connection_shows_only_connect_limit(proxied, lab, transport):
    """A connection that is open before works on."""
    tried = one_try(proxied, lab, transport)
    proxied.add("unaccepted", "downstream")
    seen = tried.seen(*tried.make())
    observed = replace(observed_try(seen.tried), client_error=_connecting(seen.tried.error))
    assert toxic("unaccepted").observed("downstream", {}, observed) is (transport != "kept")


def _connecting(error: str | None) -> str | None:
    """The word of a client that knows that it was still connecting."""
    return "connect_timeout" if error == "read_timeout" else error


def one_try(proxied, lab, transport):
    host, _, port = proxied.state.listen.rpartition(":")
    return OneTry(lab, (host, int(port)), transport)


# The slow link keeps the connection busy until it is cut.
SLOW = ("bandwidth", "downstream", {"rate": 5})
SHOWN = [
    ("cut_after", "downstream", {"age": 500}, [SLOW]),
    ("shared_bandwidth", "upstream", {"rate": 1}, []),
    ("shared_bandwidth", "downstream", {"rate": 20}, []),
]
OF_A_CONNECTION = ("cut_after",)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("kind", "stream", "attributes", "others"), SHOWN, ids=str)
def test_records_of_client_and_gateway_show_toxic(proxied, lab, kind, stream, attributes, others, transport):
    tried = one_try(proxied, lab, transport)
    for other in others:
        proxied.client.add_toxic(proxied.name, "other", *other)
    proxied.client.add_toxic(proxied.name, "own", kind, stream, attributes)
    made = tried.make()
    seen = tried.seen(*made)
    known = toxic(kind)
    complete = known.complete(attributes)
    assert known.observed(stream, complete, observed_try(seen.tried)), observed_try(seen.tried)
    if kind in OF_A_CONNECTION and transport == "fresh":
        planned = PlannedToxic("search", kind, stream, attributes)
        # the gateway had written the whole reply, so this record alone does not decide it
        assert shown_by_connections(planned, [seen.connection], seen.exchanges) is None
        assert shown_by_connections(planned, [seen.connection], []) is True
