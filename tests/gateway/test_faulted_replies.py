"""The record of a faulted reply: the upstream's, and the client's."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

import pytest
import requests

from tests.gateway.lab import Lab, without_digests
from tests.gateway.scripted import STREAM, UPSTREAM_REPLY, ScriptedUpstream, armed, ask, sized
from tests.support import replace
from wirefault.dialects.http import chunk
from wirefault.gateway.exchange.bodies import MAX_FAULTED_BODY
from wirefault.history.events import FaultedReply

pytestmark = pytest.mark.usefixtures("scripted_faults")
NATURAL = UPSTREAM_REPLY.decode()
TOKEN = "sk-abcdefghijklmnop1234"


def faulted(lab: Lab, does: str, **settings: str) -> FaultedReply | None:
    """The record of a reply that the fault acts on."""
    lab.begin(faults=armed(does), **settings)
    with suppress(requests.RequestException):
        ask(lab)
    return lab.exchange().faulted_reply


def bodies(both: FaultedReply | None) -> FaultedReply | None:
    """The record without its headers."""
    return None if both is None else replace(both, upstream_headers={}, observed_headers={})


def test_headers_of_each_side_are_recorded(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(
        UPSTREAM_REPLY, b"RETRY-AFTER: 2", b"Set-Cookie: a=1", b"Location: /a?token=" + TOKEN.encode()
    )
    both = faulted(lab_of_service, "reply")
    assert both is not None
    location = without_digests(both.upstream_headers.pop("Location"))
    assert both.upstream_headers == {
        "Retry-After": "2",
        "Content-Type": "application/json",
        "Content-Length": "8",
    }
    assert location == "/a?token=[secret]"
    answered = faulted(lab_of_service, "answer")
    assert answered is not None and answered.upstream_headers == {}
    assert answered.observed_headers == {"Content-Type": "application/json", "Content-Length": "8"}


@pytest.mark.parametrize(
    ("does", "both"),
    [
        pytest.param("reply", FaultedReply(NATURAL, '{"n": 2}'), id="changed"),
        pytest.param("lose reply", FaultedReply(NATURAL, None), id="lost"),
        pytest.param("answer", FaultedReply(None, '{"a": 1}'), id="answered in its place"),
        pytest.param("cut", FaultedReply(None, "fo", observed_cut=True), id="cut short"),
        pytest.param("delay", FaultedReply(NATURAL, NATURAL), id="late"),
        pytest.param("twice", FaultedReply(NATURAL, NATURAL), id="asked twice"),
        pytest.param("reply miss", None, id="met, and not changed"),
    ],
)
@pytest.mark.parametrize("keeps", ["off", "on"])
def test_both_sides_of_faulted_reply_are_recorded(
    lab_of_service: Lab, does: str, both: FaultedReply | None, keeps: str
) -> None:
    assert bodies(faulted(lab_of_service, does, bodies=keeps)) == both


def test_unfaulted_reply_has_no_faulted_record(lab_of_service: Lab) -> None:
    lab_of_service.begin(bodies="off")
    ask(lab_of_service)
    exchange = lab_of_service.exchange()
    assert (exchange.faulted_reply, exchange.reply_body) == (None, None)


def test_each_side_is_read_in_its_own_encoding(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(gzip.compress(UPSTREAM_REPLY), b"Content-Encoding: gzip")
    assert bodies(faulted(lab_of_service, "reply")) == FaultedReply(NATURAL, '{"n": 2}')


def test_both_sides_of_stream_are_events(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    service.reply = STREAM + chunk(b"data: 1\n\n") + chunk(b"data: 2\n\n") + chunk(b"")
    both = bodies(faulted(lab_of_service, "events"))
    assert both == FaultedReply("data: 1\n\ndata: 2\n\n", "data: 1\n\ndata: 2\n\ndata: 2\n\n")


@pytest.mark.parametrize("length", [40, MAX_FAULTED_BODY - 5, 100_000])
def test_each_side_is_bounded_and_without_secrets(
    lab_of_service: Lab, service: ScriptedUpstream, length: int
) -> None:
    service.reply = sized(b"a" * (length - 1) + b" " + TOKEN.encode())
    both = faulted(lab_of_service, "upper")
    assert both is not None and both.upstream_reply is not None
    assert len(both.upstream_reply) <= MAX_FAULTED_BODY and TOKEN[:8] not in both.upstream_reply
    assert both.upstream_reply_cut == (length > 1000)


def test_evidence_has_no_secrets_either(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    service.reply = sized(b'{"key": "%s", "n": [{"a": "%s"}]}' % (TOKEN.encode(), TOKEN.encode()))
    faulted(lab_of_service, "reply")
    [hit] = lab_of_service.exchange().faults
    was = json.loads(without_digests(json.dumps(hit.evidence["was"])))
    assert was == {
        "key": "[secret]",
        "n": [{"a": "[secret]"}],
    }


def test_reply_across_toxic_is_recorded(lab_of_service: Lab) -> None:
    toxic = {"toxic": "latency", "links": ["search"], "with": {"latency": 1}}
    lab_of_service.begin(faults=json.dumps({"toxics": [toxic]}), toxic_prob=0, bodies="off")
    ask(lab_of_service)
    exchange = lab_of_service.exchange()
    assert bodies(exchange.faulted_reply) == FaultedReply(NATURAL, NATURAL, toxic=True)
    assert exchange.reply_body is None
    ask(lab_of_service, "weather")
    assert lab_of_service.exchanges(2)[-1].faulted_reply is None


def test_client_credential_is_on_neither_side(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    key = "a-key-of-no-known-form"
    service.reply = sized(b'{"n": "%s"}' % key.encode())
    lab_of_service.begin(faults=armed("reply"))
    ask(lab_of_service, headers={"x-api-key": key})
    exchange = lab_of_service.exchange()
    assert exchange.faulted_reply is not None
    assert without_digests(exchange.faulted_reply.upstream_reply or "") == '{"n": "[secret]"}'
    assert key not in repr(exchange)
