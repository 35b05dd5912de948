from __future__ import annotations

from tests.subjects.taps.conftest import namespaces  # noqa: F401  # a fixture
