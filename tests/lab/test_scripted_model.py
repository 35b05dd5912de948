"""The scripted model of a lab, asked by an agent that names another model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import requests

from tests.e2e.lab import in_folder
from tests.shared_imports import shared_imports
from tests.support import PATIENCE_S
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.wiring import load_wiring

WIRING = "links: {model: {upstream: scripted, dialect: openai_chat}}"
ORDER = {"name": "order_item", "arguments": '{"item": "green tea", "count": 2}'}
TEXT, COUNT = {"type": "string"}, {"type": "integer"}
PARAMETERS = {"type": "object", "properties": {"item": TEXT, "count": COUNT}, "required": ["item", "count"]}
ASKED = {
    "model": "gpt-5-mini",
    "messages": [
        {"role": "user", "content": 'Order 2 "green tea"'},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": ORDER}]},
        {"role": "tool", "tool_call_id": "1", "content": "Error: the connection was lost"},
    ],
    "tools": [{"type": "function", "function": {"name": "order_item", "parameters": PARAMETERS}}],
}


@pytest.mark.parametrize(("persona", "repeats"), [("diligent", False), ("stubborn", True)])
def test_model_uses_persona_setting(tmp_path: Path, persona: str, repeats: bool) -> None:
    """Wherever they are given: an experiment gives them, and no variable."""
    settings = {"persona": persona, "seed": "1"}
    (tmp_path / "wiring.yaml").write_text(WIRING, encoding="utf-8")
    configuration = load_configuration(os.environ, settings, load_wiring(tmp_path / "wiring.yaml"))
    with shared_imports(), Lab(in_folder(configuration, tmp_path), Choice("embedded")) as lab:
        url = lab.topology.services["model"].url + "/v1/chat/completions"
        reply = requests.post(url, json=ASKED, timeout=PATIENCE_S).json()
    assert bool(reply["choices"][0]["message"].get("tool_calls")) is repeats
