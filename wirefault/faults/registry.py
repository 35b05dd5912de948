"""All faults by name: from the catalogue and from installed packages (entry point ``wirefault.faults``)."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.plugins import WithPlugins
from wirefault.faults.base import Fault


def _catalogue() -> Mapping[str, type[Fault]]:
    # importing its sixty classes takes a while, so it happens on first use
    from wirefault.faults.catalogue import FAULTS

    return {fault.name: fault for fault in FAULTS}


def _checked(name: str, loaded: object) -> type[Fault]:
    if not (isinstance(loaded, type) and issubclass(loaded, Fault)):
        raise TypeError("is not a subclass of wirefault.faults.base.Fault")
    missing = [word for word in ("name", "family") if not hasattr(loaded, word)]
    if missing:
        raise TypeError(f"lacks {' and '.join(missing)}")
    if loaded.name != name:
        raise TypeError(f"has the name {loaded.name!r}; the entry point must have the same name")
    return loaded


REGISTRY: WithPlugins[type[Fault]] = WithPlugins("wirefault.faults", _catalogue, _checked)
