"""Every fault by its name: the catalogue's, and those of installed packages (``wirefault.faults``)."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.plugins import WithPlugins
from wirefault.faults.base import Fault


def _catalogue() -> Mapping[str, type[Fault]]:
    # its sixty classes take a while to import: only who asks for a fault waits for them
    from wirefault.faults.catalogue import FAULTS

    return {fault.name: fault for fault in FAULTS}


def _checked(name: str, loaded: object) -> type[Fault]:
    if not (isinstance(loaded, type) and issubclass(loaded, Fault)):
        raise TypeError("is no subclass of wirefault.faults.base.Fault")
    missing = [word for word in ("name", "family") if not hasattr(loaded, word)]
    if missing:
        raise TypeError(f"has no {' and no '.join(missing)}")
    if loaded.name != name:
        raise TypeError(f"is called {loaded.name!r} in its class, and must be called so by its entry point")
    return loaded


REGISTRY: WithPlugins[type[Fault]] = WithPlugins("wirefault.faults", _catalogue, _checked)
