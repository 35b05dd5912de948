"""Faults at the gateway: what they are, the catalogue, fault sets, and which of them a try meets.

Pure. It may import ``core``, ``dialects``, ``toxiproxy`` and ``links``. In Python, ``faults.rate_limit(...)``
builds an entry of a fault set; see ``build``.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wirefault.faults.build import *  # noqa: F403 - for completion in an editor


def __getattr__(name: str) -> object:
    from importlib import import_module

    build = import_module("wirefault.faults.build")  # on first use: every process imports this package
    if name not in build.__all__:
        raise AttributeError(f"module 'wirefault.faults' has no fault {name!r}")
    return getattr(build, name)
