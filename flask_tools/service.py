"""What the factory hands to each service module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flask_tools.store import Store
from windtunnel.links.catalog import Link


@dataclass(frozen=True)
class Service:
    """One service: its row of the catalog, the state of all worlds, its environment variables."""

    link: Link
    store: Store
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.link.service
