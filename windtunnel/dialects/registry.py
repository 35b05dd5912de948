"""Every dialect that a link may speak. A new one is a module, its name in ``Dialect``, and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.dialects import Dialect
from windtunnel.dialects.anthropic import ANTHROPIC
from windtunnel.dialects.errors import LinkDialect
from windtunnel.dialects.model_dialect import ModelDialect
from windtunnel.dialects.openai_chat import OPENAI_CHAT
from windtunnel.dialects.tool import TOOL

_MODEL_DIALECTS: tuple[ModelDialect, ...] = (OPENAI_CHAT, ANTHROPIC)

MODEL_DIALECTS: Mapping[Dialect, ModelDialect] = {dialect.name: dialect for dialect in _MODEL_DIALECTS}
DIALECTS: Mapping[Dialect, LinkDialect] = {TOOL.name: TOOL, **MODEL_DIALECTS}


def dialect_of(path: str, *, of_model: bool) -> Dialect:
    """What is spoken on a link, by the path of a request; chat completions if no model API has that path."""
    if not of_model:
        return TOOL.name
    named = (dialect.name for dialect in _MODEL_DIALECTS if path.endswith(dialect.path_end))
    return next(named, OPENAI_CHAT.name)
