"""The table of faults and dialects, and that every fault of models is proven in every dialect."""

from __future__ import annotations

import pytest

from tests.dialects.sdks import SDKS
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.catalogue.context import CONTEXT_FAULTS
from wirefault.faults.catalogue.model import MODEL_FAULTS
from wirefault.faults.catalogue.model.editor import StreamFault
from wirefault.faults.catalogue.model.streams import SlowFirstToken
from wirefault.report.dialect_table import CLIENTS_DIALECTS, dialect_columns, dialect_rows
from wirefault.report.fault_catalogue import read_seen


def test_the_clients_are_those_of_the_tests_and_speak_every_dialect():
    assert {sdk.name: sdk.dialect for sdk in SDKS} == CLIENTS_DIALECTS
    assert sorted(dialect_columns()) == sorted(MODEL_DIALECTS)


@pytest.mark.parametrize("fault", [*MODEL_FAULTS, *CONTEXT_FAULTS])
def test_every_fault_of_models_acts_in_every_dialect(fault):
    of_streams = issubclass(fault, StreamFault) and fault is not SlowFirstToken
    cell = "stream" if of_streams else "JSON and stream"
    assert list(dialect_rows([fault.name], read_seen())) == [(f"`{fault.name}`", *[cell] * 4)]


def test_a_fault_that_no_client_met_has_no_row():
    seen = {"a": {"openai": "good answer", "anthropic": "not injected: x"}, "b": {"requests": "good answer"}}
    assert list(dialect_rows(["a", "b", "c"], seen)) == [("`a`", "JSON", "", "", "")]
