"""Open the lab's subject, ``agent.subject:open_subject``: a LangChain agent and its model client."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from pydantic import SecretStr

from wirefault.core.redaction import Redaction
from wirefault.core.run_key import InheritedKeys
from wirefault.recovery.strategies import Checkpoint, parse_recovery
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.subjects.subject import Subject

if TYPE_CHECKING:
    from agent.checkpoints import Checkpoints

_NAME = "langchain agent"  # the summary adds the model that answered
_NO_KEY = "none"  # the client requires one


@contextmanager
def open_subject(configuration: Configuration) -> Iterator[Subject]:
    """Open the agent and its model client. Raises ``SettingsError`` if the model's key is missing."""
    settings = configuration.settings
    key = api_key(settings, configuration.environ).get_secret_value()
    # after the check of the key: the import of LangChain takes a second
    from agent.loop import Agent
    from agent.models import build_model, open_client

    with open_client(settings) as client:
        model = build_model(settings, configuration.topology, key, client)
        keys = InheritedKeys(configuration.environ)
        redact = Redaction(configuration.environ).text
        recovery = parse_recovery(settings.recovery)
        name = recovery.fallback.model if recovery.fallback else ""
        fallback = build_model(settings, configuration.topology, key, client, name) if name else None
        with _checkpoints(configuration, recovery.checkpoint) as memories:
            yield Agent(
                model,
                _NAME,
                redact=redact,
                run_key=keys.run_key,
                recovery=recovery,
                fallback=fallback,
                memories=memories,
            )


@contextmanager
def _checkpoints(configuration: Configuration, strategy: Checkpoint | None) -> Iterator[Checkpoints | None]:
    """Open the store of the strategy ``checkpoint``; None without it. Raises ``SettingsError``."""
    if strategy is None:
        yield None
        return
    from agent.checkpoints import open_checkpoints
    from agent.loop import STORED_TYPES

    file = configuration.state.parent / "checkpoints.db"
    with ExitStack() as stack:
        try:
            store = stack.enter_context(open_checkpoints(file, strategy.durability, STORED_TYPES))
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(f"RECOVERY=checkpoint: cannot open {file}: {error}") from None
        yield store


def api_key(settings: Settings, environ: Mapping[str, str]) -> SecretStr:
    """Return the API key of the chosen model. Raises ``SettingsError`` if it is missing."""
    if settings.model in ("scripted", "replay"):
        return SecretStr(settings.model)
    if not settings.asks_groq:
        return SecretStr(environ.get("MODEL_API_KEY") or _NO_KEY)  # other servers never get Groq's key
    key = environ.get("GROQ_API_KEY")
    if not key:
        raise SettingsError(
            f"MODEL={settings.model} needs a key: set GROQ_API_KEY in the environment or in .env,"
            " or leave MODEL out to run with the scripted model"
        )
    return SecretStr(key)
