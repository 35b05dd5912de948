"""The keys of the models: variables that no log and no record may show."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_KEY_VARIABLES = ("GROQ_API_KEY", "MODEL_API_KEY")
_MIN_KEY_LENGTH = 8


def redactor(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes every key of the environment out of a text.

    A value of fewer than 8 characters stays: it is a placeholder, and its letters occur in other words.
    """
    keys = [environ[name] for name in _KEY_VARIABLES if len(environ.get(name, "")) >= _MIN_KEY_LENGTH]

    def redact(text: str) -> str:
        for key in keys:
            text = text.replace(key, "[secret]")
        return text

    return redact
