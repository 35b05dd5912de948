"""The version in a run's history has one source, which a build of the package does not change."""

from __future__ import annotations

from importlib.metadata import Distribution

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault._version import __version__
from wirefault.history.events import RunStarted
from wirefault.history.reader import read_run

pytestmark = pytest.mark.slow


def test_version_does_not_come_from_package_metadata(
    shared: SharedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build in the checkout rewrites the metadata, and a run that starts during it finds no version."""
    monkeypatch.setattr(Distribution, "version", None)
    run = shared.run(sample("in Paris right now"))
    [started] = run.of(RunStarted)
    assert started.versions["wirefault"] == __version__
    assert read_run(shared.configuration.logs, run.record.run_id)
