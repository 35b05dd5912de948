"""Subjects by name: ``--subject MODULE:FACTORY``, an installed package's, or the lab's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, update_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from wirefault.core.errors import nearest
from wirefault.core.lab_folder import lab_root
from wirefault.core.plugins import find_plugins
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects.subject import Subject, SubjectFactory, as_subject
from wirefault.wiring.wiring import Wiring

LAB_SUBJECT = "lab"  # the lab's LangChain agent
_LAB_FACTORY = ("agent.subject", "open_subject")


def is_lab_subject(name: str, wiring: Wiring) -> bool:
    """Whether the subject with that name, or the wiring's if it is empty, is the lab's own."""
    return name == LAB_SUBJECT or (not name and wiring.is_lab)


def find_subject(name: str) -> tuple[str, str]:
    """Return ``MODULE:FACTORY``, as given or from the package that registers the name, and a label for
    errors.

    Imports nothing of the package. Raises ``SettingsError`` for a name that no package registers.
    """
    label = f"--subject={name!r}"
    if ":" in name:
        return name, label
    plugins = find_plugins("wirefault.subjects")
    if name not in plugins:
        known = nearest(name, plugins) if plugins else ", and no installed package has one"
        raise SettingsError(f"{label}: give MODULE:FACTORY, or the name of an installed subject{known}")
    plugin = plugins[name]
    return plugin.entry_point.value, f"{label} ({plugin.package})"


def split_subject_name(name: str) -> tuple[str, str]:
    """Return the names of the module and the factory.

    Raises ``SettingsError`` for anything but ``MODULE:FACTORY``, ``LAB_SUBJECT`` and a registered name.
    """
    if name == LAB_SUBJECT:
        return _LAB_FACTORY
    place, label = find_subject(name)
    module, _, factory = place.partition(":")
    if not all(map(str.isidentifier, (*module.split("."), factory))):
        raise SettingsError(f"{label}: give MODULE:FACTORY, or {LAB_SUBJECT} for the lab's own")
    return module, factory


def load_subject(name: str) -> SubjectFactory:
    """Import the module and return its factory. Raises ``SettingsError`` for a missing one."""
    module_name, factory_name = split_subject_name(name)
    label = f"--subject={name!r}" if name == LAB_SUBJECT else find_subject(name)[1]
    _find_modules_for(name)
    try:
        module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SettingsError(f"{label}: {module_name} cannot be imported: {error}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        callables = [known for known, value in vars(module).items() if callable(value)]
        hint = nearest(factory_name, callables)
        raise SettingsError(f"{label}: {module_name} has no function {factory_name}{hint}")
    return update_wrapper(partial(_open, label, factory), factory)


def lab_agent_function(name: str) -> Callable[..., Any]:
    """Return a function of the lab's own agent, from ``agent/subject.py``."""
    _find_modules_for(LAB_SUBJECT)
    return cast(Callable[..., Any], getattr(import_module(_LAB_FACTORY[0]), name))


@contextmanager
def _open(
    label: str, factory: Callable[[Configuration], object], configuration: Configuration
) -> Iterator[Subject]:
    try:
        opening = factory(configuration)
    except Exception as error:
        raise SettingsError(
            f"{label}: called with the configuration, it raised {type(error).__name__}: {error}. A function"
            " or class that takes a prompt goes into a wiring: `subject: {python: MODULE:NAME}`"
        ) from error
    if not isinstance(opening, AbstractContextManager):
        raise SettingsError(f"{label}: must be a context manager: use contextlib.contextmanager")
    with opening as opened:
        try:
            subject = as_subject(opened)
        except TypeError as error:
            raise SettingsError(f"{label}: {error}") from None
        yield subject


def _find_modules_for(name: str) -> None:
    """Put the lab's modules on the path, or this folder first for another subject."""
    lab = str(lab_root().resolve())
    if name == LAB_SUBJECT:
        sys.path.insert(0, lab)
    else:
        sys.path.insert(0, str(Path.cwd()))
        sys.path.append(lab)
