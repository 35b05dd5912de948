"""``agent.subject:open_subject``, the lab's own subject: a LangChain agent and its model client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import SecretStr

from wirefault.history.events import SELF_TEST
from wirefault.settings.configuration import Configuration, redactor
from wirefault.settings.settings import Settings, SettingsError
from wirefault.subjects.subject import Subject

_NO_KEY = "none"  # the client insists on one


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


def api_key(settings: Settings, environ: Mapping[str, str]) -> SecretStr:
    """The key for the chosen model; the lab's own takes any. Raises ``SettingsError`` without one."""
    if settings.model in ("scripted", "replay"):
        return SecretStr(settings.model)
    if not settings.asks_groq:
        return SecretStr(environ.get("MODEL_API_KEY") or _NO_KEY)  # Groq's key is not for others
    key = environ.get("GROQ_API_KEY")
    if not key:
        raise SettingsError(
            f"MODEL={settings.model} needs a key: set GROQ_API_KEY in the environment or in .env,"
            " or leave MODEL out to fly with the scripted model"
        )
    return SecretStr(key)
