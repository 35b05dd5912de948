"""Subjects that are Python objects, named as ``module:factory``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, update_wrapper
from importlib import import_module
from pathlib import Path

from wirefault.core.errors import nearest
from wirefault.core.lab_folder import lab_root
from wirefault.core.plugins import find_plugins
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects.subject import Subject, SubjectFactory, as_subject


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


LAB_SUBJECT = "lab"  # the LangChain agent that the lab brings
_OF_LAB = ("agent.subject", "open_subject")


def split_subject_name(name: str) -> tuple[str, str]:
    """The module's name and the factory's.

    Raises ``SettingsError`` for anything but ``module:factory``, ``LAB_SUBJECT``, and the name that an
    installed package gave its subject.
    """
    if name == LAB_SUBJECT:
        return _OF_LAB
    place, shown = find_subject(name)
    module, _, factory = place.partition(":")
    if not all(map(str.isidentifier, (*module.split("."), factory))):
        raise SettingsError(f"{shown}: give MODULE:FACTORY, or {LAB_SUBJECT} for the lab's own")
    return module, factory


def load_subject(name: str) -> SubjectFactory:
    """Imports the module and returns its factory. Raises ``SettingsError`` that says what is missing."""
    module_name, factory_name = split_subject_name(name)
    shown = f"--subject={name!r}" if name == LAB_SUBJECT else find_subject(name)[1]
    _find_modules_for(name)
    try:
        module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SettingsError(f"{shown}: {module_name} cannot be imported: {error}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        callables = [known for known, value in vars(module).items() if callable(value)]
        hint = nearest(factory_name, callables)
        raise SettingsError(f"{shown}: {module_name} has no function {factory_name}{hint}")
    return update_wrapper(partial(_open, shown, factory), factory)


@contextmanager
def _open(
    shown: str, factory: Callable[[Configuration], object], configuration: Configuration
) -> Iterator[Subject]:
    opening = factory(configuration)
    if not isinstance(opening, AbstractContextManager):
        raise SettingsError(f"{shown}: must be a context manager: use contextlib.contextmanager")
    with opening as opened:
        try:
            subject = as_subject(opened)
        except TypeError as error:
            raise SettingsError(f"{shown}: {error}") from None
        yield subject


def _find_modules_for(name: str) -> None:
    """Lets imports find the lab's modules if the subject is its own, else first those in this folder."""
    lab = str(lab_root().resolve())
    if name == LAB_SUBJECT:
        sys.path.insert(0, lab)
    else:
        sys.path.insert(0, str(Path.cwd()))
        sys.path.append(lab)
