"""Which fault was seen to act in which dialect of models: read from what the providers' clients saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

CLIENTS_DIALECTS = {
    "groq": "openai_chat",
    "openai": "openai_chat",
    "openai responses": "openai_responses",
    "anthropic": "anthropic",
    "google-genai": "gemini",
}
_NOT_ACTED = "not injected"


def dialect_rows(names: Sequence[str], seen: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    """Of each of these faults its name and a cell a dialect: ``JSON``, ``stream``, both, or nothing.

    ``seen``: what each client saw of each fault, as the tests noted it.
    """
    for name in names:
        proven = {dialect: _forms_acted_on(dialect, seen.get(name, {})) for dialect in dialect_columns()}
        if any(proven.values()):
            yield (f"`{name}`", *(" and ".join(forms) for forms in proven.values()))


def dialect_columns() -> list[str]:
    """The dialects, each once."""
    return list(dict.fromkeys(CLIENTS_DIALECTS.values()))


def _forms_acted_on(dialect: str, saw: Mapping[str, str]) -> list[str]:
    """The forms of a reply in which a client of that dialect met the fault, and it changed something."""
    clients = [client for client, spoken in CLIENTS_DIALECTS.items() if spoken == dialect]
    forms = {"JSON": clients, "stream": [f"{client}, stream" for client in clients]}
    return [
        form
        for form, columns in forms.items()
        if any(not saw[column].startswith(_NOT_ACTED) for column in columns if column in saw)
    ]
