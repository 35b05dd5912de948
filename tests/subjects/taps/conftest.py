from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.front import AnsweringFront, answering_front
from tests.subjects.taps.tapped import opened
from tests.support import required
from wirefault.settings.settings import SettingsError


@pytest.fixture
def front(tmp_path: Path) -> Iterator[AnsweringFront]:
    with answering_front(tmp_path) as front:
        yield front


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips on a system that forbids them, unless they are required."""
    folder = tmp_path_factory.mktemp("trial")
    try:
        with answering_front(folder) as front, opened(front, folder, "namespace"):
            return
    except SettingsError as error:
        if not required("namespaces"):
            pytest.skip(str(error))
        raise
