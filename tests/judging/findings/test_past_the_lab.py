"""Connections that went past the lab."""

from __future__ import annotations

from tests.judging.findings.traced import asked, found, observed
from wirefault.history.events import WentPastLab
from wirefault.judging.findings.leaks import PAST_THE_LAB


def past(host="93.184.216.34", count=1, program="node", protocol="tcp"):
    return WentPastLab(101.0, "001", 1, host, 443, protocol, program, count)


def test_all_that_went_past_in_an_episode_is_one_finding_with_its_events():
    [finding] = found(PAST_THE_LAB, asked(), past(count=3), past("2001:db8::1", protocol="udp"))
    assert finding.text == (
        "it went past the lab: node to 93.184.216.34:443 (3 connections);"
        " node to [2001:db8::1]:443 by UDP: no fault can reach that, and it is not recorded"
    )
    assert len(finding.evidence) == 2


def test_nothing_is_said_where_nothing_was_seen():
    assert observed(PAST_THE_LAB, asked()) == []
