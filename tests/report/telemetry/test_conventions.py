"""Names in spans against the pinned schema: the package of OpenTelemetry's semantic conventions."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pkgutil import iter_modules

import pytest

from wirefault.report.telemetry import conventions

attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes")
OURS = ("fault.", "wirefault")
PINNED = {
    name: value
    for name, value in vars(conventions).items()
    if name.isupper() and isinstance(value, str) and "." in value and not value.startswith((*OURS, "https:"))
}


def known() -> set[str]:
    """Every attribute of the package, stable or not."""
    modules = [
        import_module(f"{attributes.__name__}.{module.name}") for module in iter_modules(attributes.__path__)
    ]
    return {value for module in modules for name, value in vars(module).items() if name.isupper()}


def test_attributes_are_in_schema() -> None:
    # an event, which the package does not list: it has the event's attributes
    assert set(PINNED.values()) - known() == {conventions.EVALUATION}


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_values_are_in_schema(dialect: str) -> None:
    gen_ai = import_module(f"{attributes.__name__}.gen_ai_attributes")
    assert conventions.provider_of(dialect) in {each.value for each in gen_ai.GenAiProviderNameValues}
    operations = {each.value for each in gen_ai.GenAiOperationNameValues}
    assert {
        conventions.operation_of(dialect),
        conventions.INVOKE_AGENT,
        conventions.EXECUTE_TOOL,
    } <= operations


def test_schema_is_the_pinned_one() -> None:
    schemas = import_module("opentelemetry.semconv.schemas").Schemas
    assert list(schemas)[-1].value == conventions.SCHEMA_URL
    assert version("opentelemetry-semantic-conventions") in (conventions.__doc__ or "")


def test_page_describes_each_name() -> None:
    page = Path("docs/telemetry.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`((?:fault|wirefault|gen_ai|http|url|server|error|mcp)\.[\w.]+)`", page))
    ours = {
        v for n, v in vars(conventions).items() if n.isupper() and isinstance(v, str) and v.startswith(OURS)
    }
    assert described >= ours | set(PINNED.values()) - {conventions.SERVICE_NAME, conventions.SERVICE_VERSION}
