"""Each fault of the catalogue makes the same bytes and the same record as before, on HTTP and on lines."""

from __future__ import annotations

import json

import pytest

from tests.gateway.frozen_replies import TABLE, digests
from wirefault.faults.registry import REGISTRY

FROZEN = json.loads(TABLE.read_text())


@pytest.mark.parametrize("name", FROZEN)
def test_fault_makes_same_bytes_and_record(name):
    today = digests(REGISTRY[name])
    assert {variant: today.get(variant) for variant in FROZEN[name]} == FROZEN[name], (
        "if that is meant: python -m tests.gateway.frozen_replies"
    )
