"""Dialect selection for a link."""

from __future__ import annotations

import pytest

from wirefault.dialects.registry import dialect_of


@pytest.mark.parametrize(
    ("of_model", "path", "dialect"),
    [(False, "/v1/messages", "tool"), (True, "/v1/messages", "anthropic"), (True, "/x", "openai_chat")],
)
def test_link_and_path_select_dialect(of_model, path, dialect):
    assert dialect_of(path, of_model=of_model) == dialect
