from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.front import AnsweringFront, answering_front


@pytest.fixture
def front(tmp_path: Path) -> Iterator[AnsweringFront]:
    with answering_front(tmp_path) as front:
        yield front
