"""Which dialect is spoken on a link."""

from __future__ import annotations

import pytest

from wirefault.dialects.registry import dialect_of


@pytest.mark.parametrize(
    ("of_model", "path", "dialect"),
    [(False, "/v1/messages", "tool"), (True, "/v1/messages", "anthropic"), (True, "/x", "openai_chat")],
)
def test_dialect_follows_from_link_and_path(of_model, path, dialect):
    assert dialect_of(path, of_model=of_model) == dialect
