"""Shorthands for requests of a subject, and for calling one rule about them."""

from __future__ import annotations

from tests.judging.oracle.histories import exchange, run_started
from tests.support import replace
from wirefault.judging.findings.rules import RULES, trace_findings
from wirefault.judging.trace import traces
from wirefault.wiring.links import Link, Links

SHOP = Link("shop", "http://127.0.0.1:9000", env=("SHOP_URL",), writes=("POST /orders", "DELETE /orders/*"))
CRM = Link("crm", "https://crm.example.net", env=("CRM_URL",))
MODEL = Link("model", "https://api.openai.com/v1", "openai_chat", ("OPENAI_BASE_URL",))
LINKS = Links((MODEL, SHOP, CRM))


def observed(rule, *events, links=LINKS, **settings):
    """The texts of that rule's findings in a run with these events."""
    return [finding.text for finding in rule_findings(rule, *events, links=links, **settings)]


def findings_in(events, rules=RULES):
    return trace_findings(traces(events), rules)


def rule_findings(rule, *events, links=LINKS, **settings):
    return findings_in([replace(run_started(1, **settings), links=list(links)), *events], [rule])


def request(at=0.0, target="/orders", method="POST", link="shop", seconds=0.01, **more):
    """A request of an opaque subject in the gateway's record, ``at`` seconds after the run's start."""
    fields = {"identity": "counted", "dialect": "http", "start": 100.0 + at, "ms": seconds * 1000}
    return exchange(link, method=method, target=target, **fields | more)


def model_request(at=0.0, body='{"messages": []}', **more):
    fields = {"target": "/v1/chat/completions", "dialect": "openai_chat", "fingerprint": ""}
    return request(at, **{"link": "model", "request_body": body} | fields | more)


def lost(at=0.0, **more):
    """A write that was executed, and whose reply did not reach the subject."""
    return request(at, **{"complete": (True, False), "status": 201, "reply_bytes": 0} | more)
