"""Each API key is sent to its own server only."""

import pytest

from agent.subject import api_key
from tests.agent.support import settings
from wirefault.settings.settings import SettingsError

KEY = "gsk_no_real_key_0123456789"


def test_missing_groq_key_error_has_advice() -> None:
    for environ in ({}, {"GROQ_API_KEY": ""}, {"MODEL_API_KEY": KEY}):
        for model in ("groq", "record"):
            message = f"MODEL={model} needs a key: set GROQ_API_KEY .* or leave MODEL out"
            with pytest.raises(SettingsError, match=message):
                api_key(settings(model=model), environ)


def test_recording_of_groq_needs_its_key() -> None:
    assert api_key(settings(model="record"), {"GROQ_API_KEY": KEY}).get_secret_value() == KEY


@pytest.mark.parametrize(
    ("model", "environ", "key"),
    [
        ("groq", {"GROQ_API_KEY": KEY}, KEY),
        ("scripted", {"GROQ_API_KEY": KEY}, "scripted"),
        ("compatible", {"MODEL_API_KEY": KEY}, KEY),
        ("compatible", {"GROQ_API_KEY": KEY}, "none"),
        ("compatible", {}, "none"),
        ("record", {"MODEL_API_KEY": KEY}, KEY),
        ("record", {"GROQ_API_KEY": KEY}, "none"),
        ("replay", {"GROQ_API_KEY": KEY, "MODEL_API_KEY": KEY}, "replay"),
    ],
)
def test_key_is_sent_to_its_own_server_only(model: str, environ: dict[str, str], key: str) -> None:
    frozen = settings(model=model, model_base_url="http://127.0.0.1:1")
    assert api_key(frozen, environ).get_secret_value() == key
