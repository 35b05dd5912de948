"""The keys of the models: which one goes to which server, and none of them into a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import SecretStr

from windtunnel.settings.settings import Settings, SettingsError

KEYS = ("GROQ_API_KEY", "MODEL_API_KEY")
MIN_KEY_LENGTH = 8
NO_KEY = "none"  # the client insists on one


def api_key(settings: Settings, environ: Mapping[str, str]) -> SecretStr:
    """The key for the chosen model; the scripted one takes any. Raises ``SettingsError`` without one."""
    if settings.model == "scripted":
        return SecretStr("scripted")
    if settings.model == "compatible":
        return SecretStr(environ.get("MODEL_API_KEY") or NO_KEY)  # Groq's key is not for others
    key = environ.get("GROQ_API_KEY")
    if not key:
        raise SettingsError(
            "MODEL=groq needs a key: set GROQ_API_KEY in the environment or in .env,"
            " or leave MODEL out to fly with the scripted model"
        )
    return SecretStr(key)


def redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Takes every key of the environment out of a text; what is too short to be one stays."""
    secrets = [environ[name] for name in KEYS if len(environ.get(name, "")) >= MIN_KEY_LENGTH]

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "[secret]")
        return text

    return redact
