"""Subjects of installed packages (``windtunnel.subjects``): a name for a ``MODULE:FACTORY`` of theirs."""

from __future__ import annotations

from windtunnel.core.plugins import find_plugins
from windtunnel.core.spelling import nearest
from windtunnel.settings.settings import SettingsError


def subject_place(name: str) -> str:
    """``MODULE:FACTORY`` as it was given, or that of the package which calls its subject so.

    Imports nothing of the package. Raises ``SettingsError`` for a name that no package brings.
    """
    if ":" in name:
        return name
    plugins = find_plugins("windtunnel.subjects")
    if name not in plugins:
        known = nearest(name, plugins) if plugins else ", and no installed package brings a subject"
        raise SettingsError(
            f"--subject={name!r}: give MODULE:FACTORY, or the name that an installed package gave its"
            f" subject{known}"
        )
    return plugins[name].entry_point.value
