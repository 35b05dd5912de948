"""Which of the models' keys goes to which server."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from windtunnel.settings.settings import Settings, SettingsError

_NO_KEY = "none"  # the client insists on one


def api_key(settings: Settings, environ: Mapping[str, str]) -> SecretStr:
    """The key for the chosen model; the scripted one takes any. Raises ``SettingsError`` without one."""
    if settings.model == "scripted":
        return SecretStr("scripted")
    if settings.model == "compatible":
        return SecretStr(environ.get("MODEL_API_KEY") or _NO_KEY)  # Groq's key is not for others
    key = environ.get("GROQ_API_KEY")
    if not key:
        raise SettingsError(
            "MODEL=groq needs a key: set GROQ_API_KEY in the environment or in .env,"
            " or leave MODEL out to fly with the scripted model"
        )
    return SecretStr(key)
