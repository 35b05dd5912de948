"""No key reaches a log."""

from wirefault.settings.configuration import redactor

KEY = "gsk_no_real_key_0123456789"


def test_each_key_is_redacted() -> None:
    redact = redactor({"GROQ_API_KEY": KEY, "MODEL_API_KEY": "sk-other-key", "PATH": "/bin/bash"})
    assert redact(f"{KEY}, sk-other-key, /bin/bash") == "[secret], [secret], /bin/bash"


def test_placeholder_is_not_secret() -> None:
    assert redactor({"MODEL_API_KEY": "none", "GROQ_API_KEY": ""})("there are none") == "there are none"
