from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress, answering_ingress
from tests.subjects.taps.tapped import opened
from tests.support import required
from wirefault.settings.settings import SettingsError


@pytest.fixture
def ingress(tmp_path: Path) -> Iterator[AnsweringIngress]:
    with answering_ingress(tmp_path) as ingress:
        yield ingress


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips on a system that forbids them, unless they are required."""
    folder = tmp_path_factory.mktemp("trial")
    try:
        with answering_ingress(folder) as ingress, opened(ingress, folder, "namespace"):
            return
    except SettingsError as error:
        if not required("namespaces"):
            pytest.skip(str(error))
        raise
