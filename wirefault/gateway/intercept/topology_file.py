"""A lane's topology as it stands: the launcher writes it anew once Toxiproxy has its proxies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wirefault.core.lifeline import TOPOLOGY_VARIABLE
from wirefault.wiring.topology import Topology, topology_from


class TopologyFile:
    """Call it for the topology, which without a file is that of the environment.

    Making it and calling it raise ``OSError`` and ``ValueError``.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get(TOPOLOGY_VARIABLE)
        self._path = Path(path) if path else None
        self._read_at = self._written()
        self._topology = topology_from(environ)

    def __call__(self) -> Topology:
        written = self._written()
        if self._path is not None and written not in (0, self._read_at):
            self._topology, self._read_at = Topology.load(self._path), written
        return self._topology

    def _written(self) -> int:
        """In nanoseconds; 0 where there is no file, or none any more."""
        try:
            return self._path.stat().st_mtime_ns if self._path is not None else 0
        except FileNotFoundError:
            return 0
