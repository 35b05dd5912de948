"""Open the lab's subject, ``agent.subject:open_subject``: a LangChain agent and its model client."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from wirefault.core.errors import InputError
from wirefault.core.redaction import Redaction
from wirefault.core.run_key import InheritedKeys
from wirefault.recovery.approvals import load_approvals
from wirefault.recovery.strategies import Recovery, parse_recovery
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.state.handoffs import FILE_NAME, HandoffQueue
from wirefault.subjects.subject import Subject

if TYPE_CHECKING:
    from agent.checkpoints import Checkpoints, SessionCheckpoints
    from agent.handoff import HandoffDesk

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
        with open_stores(configuration, recovery) as (memories, desk):
            yield Agent(
                model,
                _NAME,
                redact=redact,
                run_key=keys.run_key,
                recovery=recovery,
                fallback=fallback,
                memories=memories,
                desk=desk,
            )


@contextmanager
def open_stores(
    configuration: Configuration, recovery: Recovery
) -> Iterator[tuple[Checkpoints | None, HandoffDesk | None]]:
    """Open the stores of the strategies ``checkpoint`` and ``handoff``, each None without it.

    Raises ``SettingsError``.
    """
    from agent.checkpoints import open_checkpoints
    from agent.handoff import HandoffDesk
    from agent.loop import STORED_TYPES

    state, memories, desk = configuration.state.parent, None, None
    if recovery.handoff:
        try:
            approvals = load_approvals(recovery.handoff.answers)
        except InputError as error:
            raise SettingsError(f"RECOVERY: {error}") from None
        desk = HandoffDesk(HandoffQueue(state / FILE_NAME), approvals)
    with ExitStack() as stack:
        if recovery.checkpoint:
            file = state / "checkpoints.db"
            opening = open_checkpoints(file, recovery.checkpoint.durability, STORED_TYPES)
            try:
                memories = stack.enter_context(opening)
            except (OSError, sqlite3.Error) as error:
                raise SettingsError(f"RECOVERY: checkpoint: cannot open {file}: {error}") from None
        yield memories, desk


@contextmanager
def open_conversations(
    configuration: Configuration, file: Path, key: Callable[[str], bytes]
) -> Iterator[tuple[Callable[[str, str, int], Subject], SessionCheckpoints]]:
    """Open the agent of ``wirefault lab serve``: a subject for each RECOVERY text, model's name and
    bound of tokens (empty and 0: the settings' own), and their conversations.

    ``key`` returns a run's key, which signs its requests. Raises ``SettingsError``.
    """
    settings = configuration.settings
    model_key = api_key(settings, configuration.environ).get_secret_value()
    from agent.checkpoints import SessionCheckpoints, open_checkpoints
    from agent.handoff import HandoffDesk
    from agent.loop import STORED_TYPES, Agent
    from agent.models import build_model, open_client

    redact = Redaction(configuration.environ).text
    with open_client(settings) as client, open_checkpoints(file, "sync", STORED_TYPES) as stored:
        sessions = SessionCheckpoints(stored.saver, "sync")

        @cache
        def with_recovery(text: str, model_name: str, max_tokens: int) -> Subject:
            recovery = parse_recovery(text)
            name = recovery.fallback.model if recovery.fallback else ""
            topology, desk = configuration.topology, None
            if recovery.handoff:
                queue = HandoffQueue(configuration.state.parent / FILE_NAME)
                desk = HandoffDesk(queue, load_approvals(recovery.handoff.answers))
            model = build_model(settings, topology, model_key, client, model_name)
            if max_tokens:
                model = model.model_copy(update={"max_tokens": max_tokens})
            return Agent(
                model,
                _NAME,
                redact=redact,
                run_key=key,
                recovery=recovery,
                fallback=build_model(settings, topology, model_key, client, name) if name else None,
                memories=sessions,
                desk=desk,
            )

        yield with_recovery, sessions


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
