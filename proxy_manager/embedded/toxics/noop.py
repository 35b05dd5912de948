"""noop: nothing happens."""

from __future__ import annotations

from proxy_manager.embedded.toxics.base import Stage


class Noop(Stage):
    kind = "noop"
    struct = "NoopToxic"
    fields = ()
