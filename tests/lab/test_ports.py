"""A lab listens on the ports that ``agent/config.json`` names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.lab import in_folder
from tests.shared_imports import shared_imports
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration

pytestmark = pytest.mark.slow  # it starts a lab


def test_lab_listens_on_configured_ports(tmp_path: Path) -> None:
    with bind(FREE) as taken:  # free as soon as it is closed
        port = bound_address(taken).port
    configuration = replace(in_folder(load_configuration(os.environ), tmp_path), ports={"manager": port})
    with shared_imports(), Lab(configuration, Choice("embedded")) as lab:
        assert lab.topology.manager.port == port
