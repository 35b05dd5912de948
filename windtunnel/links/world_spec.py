"""The ``world:`` of a wiring file: how it is reset, and what is looked at before and after an episode."""

from __future__ import annotations

from windtunnel.links.spec import Spec


class WorldSpec(Spec):
    """Without any of it the world is what the wire shows."""
