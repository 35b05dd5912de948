"""noop: nothing happens."""

from __future__ import annotations

from windtunnel.toxiproxy.embedded.stages.base import Stage


class Noop(Stage):
    kind = "noop"
    struct = "NoopToxic"
    fields = ()
