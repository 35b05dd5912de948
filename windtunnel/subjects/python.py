"""Subjects that are Python objects, named as ``module:factory``."""

from __future__ import annotations

from importlib import import_module

from windtunnel.core.spelling import nearest
from windtunnel.settings.settings import SettingsError
from windtunnel.subjects.plugins import subject_place
from windtunnel.subjects.subject import SubjectFactory

LAB_SUBJECT = "agent.subject:open_subject"  # the LangChain agent that the lab brings


def split_subject_name(name: str) -> tuple[str, str]:
    """The module's name and the factory's. Raises ``SettingsError`` for anything but ``module:factory``."""
    module, _, factory = subject_place(name).partition(":")
    if not all(map(str.isidentifier, (*module.split("."), factory))):
        raise SettingsError(f"--subject={name!r}: give MODULE:FACTORY, for example {LAB_SUBJECT}")
    return module, factory


def load_subject(name: str) -> SubjectFactory:
    """Imports the module and returns its factory. Raises ``SettingsError`` that says what is missing."""
    module_name, factory_name = split_subject_name(name)
    try:
        module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise SettingsError(f"--subject={name!r}: {module_name} cannot be imported: {error}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        callables = [known for known, value in vars(module).items() if callable(value)]
        hint = nearest(factory_name, callables)
        raise SettingsError(f"--subject={name!r}: {module_name} has no function {factory_name}{hint}")
    return factory  # type: ignore[no-any-return]  # what it returns is known once it is called
