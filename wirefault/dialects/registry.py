"""All dialects: built in and from installed packages (entry point ``wirefault.dialects``).

To add one, write a module and list it here. Dialects of packages are for model APIs.
"""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.plugins import WithPlugins
from wirefault.dialects import Dialect
from wirefault.dialects.anthropic import ANTHROPIC
from wirefault.dialects.base import LinkDialect, ModelDialect
from wirefault.dialects.bedrock import BEDROCK
from wirefault.dialects.gemini import GEMINI
from wirefault.dialects.mcp import MCP
from wirefault.dialects.ollama import OLLAMA
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.openai_responses import OPENAI_RESPONSES
from wirefault.dialects.realtime import REALTIME
from wirefault.dialects.tool import TOOL

_MODEL_DIALECTS: tuple[ModelDialect, ...] = (
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    BEDROCK,
)
_GROUP = "wirefault.dialects"


def _of_models() -> Mapping[str, ModelDialect]:
    return {dialect.name: dialect for dialect in _MODEL_DIALECTS}


def _of_all_links() -> Mapping[str, LinkDialect]:
    return {TOOL.name: TOOL, MCP.name: MCP, REALTIME.name: REALTIME, **_of_models()}


def _checked(name: str, loaded: object) -> ModelDialect:
    if isinstance(loaded, type) or not isinstance(loaded, ModelDialect):
        raise TypeError("must be an object that implements wirefault.dialects.base.ModelDialect")
    if loaded.name != name:
        raise TypeError(f"is called {loaded.name!r} itself, and must be called so by its entry point")
    return loaded


MODEL_DIALECTS: WithPlugins[ModelDialect] = WithPlugins(_GROUP, _of_models, _checked)
DIALECTS: WithPlugins[LinkDialect] = WithPlugins(_GROUP, _of_all_links, _checked)


def is_model_api(dialect: Dialect) -> bool:
    """Whether models are asked in it, by requests or by the messages of a WebSocket connection."""
    return dialect == REALTIME.name or dialect in MODEL_DIALECTS


def dialect_of(path: str, *, of_model: bool, otherwise: Dialect = OPENAI_CHAT.name) -> Dialect:
    """The dialect of a link by a request's path; ``otherwise`` if no model API has that path."""
    if not of_model:
        return TOOL.name
    if path.endswith(REALTIME.path_end):
        return REALTIME.name
    named = (dialect.name for dialect in MODEL_DIALECTS.values() if path.endswith(dialect.path_end))
    return next(named, otherwise)
