"""No key reaches a log."""

from wirefault.settings.configuration import redactor

KEY = "gsk_no_real_key_0123456789"


def test_every_key_is_taken_out_of_a_text() -> None:
    redact = redactor({"GROQ_API_KEY": KEY, "MODEL_API_KEY": "sk-other-key", "PATH": "/bin/bash"})
    assert redact(f"{KEY}, sk-other-key, /bin/bash") == "[secret], [secret], /bin/bash"


def test_a_placeholder_is_no_key() -> None:
    assert redactor({"MODEL_API_KEY": "none", "GROQ_API_KEY": ""})("there are none") == "there are none"
