"""``memory_exhaustion``: a compressed reply that unpacks to more."""

import gzip
import json
import zlib

import pytest

from wirefault.faults.catalogue.model.memory import MemoryExhaustion, gzip_with_spaces
from wirefault.faults.sets.presets import preset
from wirefault.runner.attempts import memory_limit

MIB = 1 << 20


@pytest.mark.parametrize("mib", [1, 3])
def test_reply_is_unchanged_but_for_spaces(mib: int) -> None:
    body = json.dumps({"text": "It is 8.4 celsius in Zürich."}).encode() * 40
    packed = gzip_with_spaces(body, mib)
    assert gzip.decompress(packed) == body + b" " * mib * MIB
    assert zlib.decompressobj(31).decompress(packed) == gzip.decompress(packed)
    assert len(packed) < len(body) + mib * 2000


def test_limit_is_in_force_while_the_fault_is_in_the_set() -> None:
    assert memory_limit(preset("recovery-lab")) == MemoryExhaustion().memory_limit == 96 * MIB
    assert memory_limit(preset("heavy")) == 0
