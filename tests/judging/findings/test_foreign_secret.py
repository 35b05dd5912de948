"""A secret sent to a host that it does not belong to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging.findings.traced import CRM, MODEL, SHOP, asked, asked_model, observed
from wirefault.judging.findings.leaks import FOREIGN_SECRET
from wirefault.wiring.links import Links

BEARER = {"credential": "9f2c"}
TO_CRM = asked(1, link="crm", target="/contacts", **BEARER)


def test_a_models_key_at_another_site_is_told_with_both_hosts():
    assert observed(FOREIGN_SECRET, asked_model(**BEARER), TO_CRM) == [
        "the key of the link model (api.openai.com) was also sent to the link crm (crm.example.net),"
        " with POST /contacts"
    ]


def test_a_service_of_this_machine_has_no_right_to_it_either():
    assert "(127.0.0.1)" in observed(FOREIGN_SECRET, asked_model(**BEARER), asked(1, **BEARER))[0]


@pytest.mark.parametrize(
    ("events", "links"),
    [
        pytest.param([asked_model(**BEARER), asked_model(1, **BEARER)], (MODEL,), id="its own provider"),
        pytest.param([asked_model(**BEARER), asked(1, credential="b")], (MODEL, SHOP), id="another key"),
        pytest.param([asked_model(), asked(1)], (MODEL, SHOP), id="none"),
        pytest.param([asked_model(status=401, **BEARER), TO_CRM], (MODEL, CRM), id="not accepted"),
        pytest.param(
            [asked_model(**BEARER), TO_CRM],
            (MODEL, replace(CRM, upstream="https://files.openai.com")),
            id="one site",
        ),
        pytest.param(
            [asked_model(**BEARER), TO_CRM],
            (replace(MODEL, upstream="http://localhost:11434/v1"), CRM),
            id="a model of this machine",
        ),
        pytest.param(
            [asked_model(**BEARER), asked_model(1, link="crm", **BEARER)],
            (MODEL, replace(CRM, upstream="http://127.0.0.1:4000", dialect="openai_chat")),
            id="a gateway of this machine",
        ),
    ],
)
def test_near_misses_are_passed_over(events, links):
    assert observed(FOREIGN_SECRET, *events, links=Links(links)) == []
