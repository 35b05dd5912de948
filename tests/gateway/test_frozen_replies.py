"""Each fault of the catalogue makes the same bytes and the same record as before, on HTTP and on lines."""

from __future__ import annotations

import json

import pytest

from tests.gateway.frozen_replies import TABLE, digests
from wirefault.faults.catalogue import FAULTS

FROZEN = json.loads(TABLE.read_text())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_makes_same_bytes_and_record(fault):
    assert digests(fault) == FROZEN.get(fault.name, {}), "see tests/gateway/frozen_replies.py"
