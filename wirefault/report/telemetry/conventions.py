"""The names of spans' attributes: OpenTelemetry's conventions, and this project's proposal for faults.

The only module that knows them. ``gen_ai.*`` and the rest of OpenTelemetry's names are those of
``opentelemetry-semantic-conventions`` 0.66b2 (schema 1.44.0), the newest version of the GenAI conventions in
a package; ``tests/report/telemetry/test_conventions.py`` compares them. ``docs/telemetry.md`` describes
``fault.*`` and ``wirefault.*``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

# OpenTelemetry: https://opentelemetry.io/docs/specs/semconv/
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
ERROR_TYPE: Final = "error.type"
HTTP_METHOD: Final = "http.request.method"
HTTP_RESEND_COUNT: Final = "http.request.resend_count"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
MCP_METHOD: Final = "mcp.method.name"

INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
FUNCTION: Final = "function"
_OPERATIONS: Mapping[str, str] = {"gemini": "generate_content"}
_PROVIDERS: Mapping[str, str] = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "realtime": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "bedrock": "aws.bedrock",
}

# the proposal for faults
FAULT_KIND: Final = "fault.kind"
FAULT_ID: Final = "fault.id"
FAULT_STAGE: Final = "fault.stage"
FAULT_LINK: Final = "fault.link"
FAULT_TARGET_STATUS: Final = "fault.target_status"
FAULT_LATENCY_MS: Final = "fault.latency_ms"
FAULT_DOSE: Final = "fault.dose"
FAULT_SEED: Final = "fault.seed"

# this project's
RUN: Final = "wirefault.run.id"
EXPERIMENT: Final = "wirefault.experiment.id"
ARM: Final = "wirefault.arm"
EPISODE: Final = "wirefault.episode.id"
ATTEMPT: Final = "wirefault.attempt"
LINK: Final = "wirefault.link"
CALL: Final = "wirefault.call"
OUTCOME: Final = "wirefault.outcome"
WORLD: Final = "wirefault.world"
CLAIM: Final = "wirefault.claim"
VALUE: Final = "wirefault.value"
STREAM: Final = "wirefault.fault.stream"
WHY_NOT: Final = "wirefault.fault.why_not"
RECOVERY: Final = "wirefault.recovery"
STRATEGY: Final = "wirefault.recovery.strategy"
SUCCESS: Final = "wirefault.recovery.success"


def operation_of(dialect: str) -> str:
    """Return ``gen_ai.operation.name`` of a model request in that dialect."""
    return _OPERATIONS.get(dialect, CHAT)


def provider_of(dialect: str) -> str:
    """Return ``gen_ai.provider.name`` of an API; the dialect's own name where the conventions have none."""
    return _PROVIDERS.get(dialect, dialect)
