"""``agent.subject:open_subject``, the lab's own subject: a LangChain agent and its model client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agent.keys import api_key
from windtunnel.history.events import SELF_TEST
from windtunnel.settings.configuration import Configuration
from windtunnel.settings.secrets import redactor
from windtunnel.settings.settings import Settings
from windtunnel.subjects.subject import Subject


@contextmanager
def open_subject(configuration: Configuration) -> Iterator[Subject]:
    """The agent, its model client open within the block. Raises ``SettingsError`` if the key is missing."""
    settings = configuration.settings
    key = api_key(settings, configuration.environ).get_secret_value()
    # LangChain takes a second to import: a missing key shall be reported before that
    from agent.loop import Agent
    from agent.models import build_model, open_client

    with open_client(settings) as client:
        model = build_model(settings, configuration.topology, key, client)
        yield Agent(model, _name(settings), redact=redactor(configuration.environ))


def _name(settings: Settings) -> str:
    if settings.model == "scripted":
        return f"{SELF_TEST} ({settings.persona})"
    return f"langchain agent, {settings.groq_model} ({settings.model})"
