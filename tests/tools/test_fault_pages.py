"""The table of faults and dialects, and that every fault of models is proven in every dialect."""

from __future__ import annotations

import pytest

from tests.dialects.sdks import SDKS
from tools.fault_pages import CLIENTS_DIALECTS, client_effects, dialect_columns, dialect_rows, read_seen
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.catalogue.context import CONTEXT_FAULTS
from wirefault.faults.catalogue.model import MODEL_FAULTS
from wirefault.faults.catalogue.model.memory import MemoryExhaustion
from wirefault.faults.catalogue.model.streams import SlowFirstToken, StreamFault


def test_clients_cover_every_dialect():
    assert {sdk.name: sdk.dialect for sdk in SDKS} == CLIENTS_DIALECTS
    assert sorted(dialect_columns()) == sorted(MODEL_DIALECTS)


NOT_IN_DIALECT = dict.fromkeys(
    [("content_filter", "ollama"), ("malformed_tool_call", "ollama")], "not in this dialect"
)


@pytest.mark.parametrize("fault", [*MODEL_FAULTS, *CONTEXT_FAULTS])
def test_model_faults_act_in_every_dialect(fault):
    of_streams = issubclass(fault, StreamFault) and fault is not SlowFirstToken
    cell = "stream" if of_streams else "JSON" if fault is MemoryExhaustion else "JSON and stream"
    cells = [NOT_IN_DIALECT.get((fault.name, dialect), cell) for dialect in dialect_columns()]
    assert list(dialect_rows([fault.name], read_seen())) == [(f"`{fault.name}`", *cells)]


def test_unmet_fault_has_no_row():
    seen = {"a": {"openai": "good answer", "anthropic": "not injected: x"}, "b": {"requests": "good answer"}}
    assert list(dialect_rows(["a", "b", "c"], seen)) == [
        ("`a`", "JSON", *[""] * (len(dialect_columns()) - 1))
    ]


SEEN = {
    "tool_error": {"Python": "tool error", "TypeScript": "tool error"},
    "tool_error (executed: true)": {"Python": "tool error", "TypeScript": "silent", "Other": "silent"},
    "split_line": {"Python": "not injected: not_a_line", "TypeScript": "not injected: not_a_line"},
}


def test_each_variant_is_line() -> None:
    assert list(client_effects("tool_error", SEEN)) == [
        "- `tool_error`: all: *tool error*",
        "- `tool_error (executed: true)`: Python: *tool error*; TypeScript, Other: *silent*",
    ]


def test_uninjected_fault_is_left_out() -> None:
    assert list(client_effects("split_line", SEEN)) == []
