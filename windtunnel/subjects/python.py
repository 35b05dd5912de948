"""Subjects that are Python objects, named as ``module:factory``."""

from __future__ import annotations

from importlib import import_module

from windtunnel.core.spelling import nearest
from windtunnel.settings.settings import SettingsError
from windtunnel.subjects.plugins import find_subject
from windtunnel.subjects.subject import SubjectFactory

LAB_SUBJECT = "agent.subject:open_subject"  # the LangChain agent that the lab brings


def split_subject_name(name: str) -> tuple[str, str]:
    """The module's name and the factory's. Raises ``SettingsError`` for anything but ``module:factory`` and
    the name that an installed package gave its subject."""
    place, shown = find_subject(name)
    module, _, factory = place.partition(":")
    if not all(map(str.isidentifier, (*module.split("."), factory))):
        raise SettingsError(f"{shown}: give MODULE:FACTORY, for example {LAB_SUBJECT}")
    return module, factory


def load_subject(name: str) -> SubjectFactory:
    """Imports the module and returns its factory. Raises ``SettingsError`` that says what is missing."""
    module_name, factory_name = split_subject_name(name)
    _, shown = find_subject(name)
    try:
        module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SettingsError(f"{shown}: {module_name} cannot be imported: {error}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        callables = [known for known, value in vars(module).items() if callable(value)]
        hint = nearest(factory_name, callables)
        raise SettingsError(f"{shown}: {module_name} has no function {factory_name}{hint}")
    return factory  # type: ignore[no-any-return]  # what it returns is known once it is called
