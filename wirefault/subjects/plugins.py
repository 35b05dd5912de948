"""Subjects of installed packages (``wirefault.subjects``): a name for a ``MODULE:FACTORY`` of theirs."""

from __future__ import annotations

from wirefault.core.plugins import find_plugins
from wirefault.core.spelling import nearest
from wirefault.settings.settings import SettingsError


def find_subject(name: str) -> tuple[str, str]:
    """``MODULE:FACTORY`` as it was given, or that of the package which calls its subject so.

    With it, how an error calls the subject: the option, and the package if there is one. Imports nothing of
    the package. Raises ``SettingsError`` for a name that no package brings.
    """
    shown = f"--subject={name!r}"
    if ":" in name:
        return name, shown
    plugins = find_plugins("wirefault.subjects")
    if name not in plugins:
        known = nearest(name, plugins) if plugins else ", and no installed package brings one"
        raise SettingsError(f"{shown}: give MODULE:FACTORY, or the name of an installed subject{known}")
    plugin = plugins[name]
    return plugin.entry_point.value, f"{shown} ({plugin.package})"
