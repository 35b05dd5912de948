"""Secrets sent to foreign hosts, and connections past the lab."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import CRM, MODEL, SHOP, model_request, observed, request, rule_findings
from tests.support import replace
from wirefault.history.events import WentPastLab
from wirefault.judging.findings.leaks import FOREIGN_SECRET, PAST_THE_LAB
from wirefault.wiring.links import Links

BEARER = {"credential": "9f2c"}
TO_CRM = request(1, link="crm", target="/contacts", **BEARER)


def test_model_key_sent_to_other_site():
    assert observed(FOREIGN_SECRET, model_request(**BEARER), TO_CRM) == [
        "the key of the link model (api.openai.com) was also sent to the link crm (crm.example.net),"
        " with POST /contacts"
    ]


def test_model_key_sent_to_local_service():
    assert "(127.0.0.1)" in observed(FOREIGN_SECRET, model_request(**BEARER), request(1, **BEARER))[0]


@pytest.mark.parametrize(
    ("events", "links"),
    [
        pytest.param([model_request(**BEARER), model_request(1, **BEARER)], (MODEL,), id="its own provider"),
        pytest.param([model_request(**BEARER), request(1, credential="b")], (MODEL, SHOP), id="another key"),
        pytest.param([model_request(), request(1)], (MODEL, SHOP), id="none"),
        pytest.param([model_request(status=401, **BEARER), TO_CRM], (MODEL, CRM), id="not accepted"),
        pytest.param(
            [model_request(**BEARER), TO_CRM],
            (MODEL, replace(CRM, upstream="https://files.openai.com")),
            id="one site",
        ),
        pytest.param(
            [model_request(**BEARER), TO_CRM],
            (replace(MODEL, upstream="http://localhost:11434/v1"), CRM),
            id="a model of this machine",
        ),
        pytest.param(
            [model_request(**BEARER), model_request(1, link="crm", **BEARER)],
            (MODEL, replace(CRM, upstream="http://127.0.0.1:4000", dialect="openai_chat")),
            id="a gateway of this machine",
        ),
    ],
)
def test_foreign_secret_near_misses(events, links):
    assert observed(FOREIGN_SECRET, *events, links=Links(links)) == []


def past(host="93.184.216.34", count=1, program="node", protocol="tcp"):
    return WentPastLab(101.0, "001", 1, host, 443, protocol, program, count)


def test_bypassing_connections():
    [finding] = rule_findings(PAST_THE_LAB, request(), past(count=3), past("2001:db8::1", protocol="udp"))
    assert finding.text == (
        "connection bypassed the lab: node to 93.184.216.34:443 (3 connections);"
        " node to [2001:db8::1]:443 by UDP: faults cannot reach it, and it is not recorded"
    )
    assert len(finding.evidence) == 2


def test_http2_connections_are_one_finding_with_advice():
    grpc = replace(past(program="the subject"), link="shop", only_http2=True, sent=90, received=80)
    [finding] = rule_findings(PAST_THE_LAB, request(), grpc, replace(grpc, sent=70))
    assert finding.text.startswith(
        "connection whose requests the lab cannot read: the subject to 93.184.216.34:443 (link shop) over"
        " HTTP/2: its client speaks only HTTP/2"
    )
    assert "make it speak HTTP/1.1" in finding.text and "--pass" not in finding.text
    assert len(finding.evidence) == 2
    [intercepted] = observed(PAST_THE_LAB, request(), replace(grpc, link=""))
    assert "--pass" in intercepted


def test_no_bypassing_connection():
    assert observed(PAST_THE_LAB, request()) == []
