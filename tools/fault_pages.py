"""Make the reference of faults: their parameters, effects on clients, and the table in ``docs/mcp.md``."""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from wirefault.core.caller_errors import ErrorKind, sorted_kinds
from wirefault.faults.base import Fault
from wirefault.faults.catalogue import FAULTS
from wirefault.faults.sets.conditions import Only, When, Window
from wirefault.faults.sets.dose import Dose, Outage
from wirefault.faults.sets.presets import describe_preset, preset_names
from wirefault.report.fault_catalogue import Row, parameter_rows, place_of

_PAGE, _SEEN = Path("docs/mcp.md"), Path("docs/mcp_seen.json")
_BEGIN, _END = "<!-- made by `make docs` from docs/mcp_seen.json; do not edit -->", "<!-- until here -->"


def mcp_page() -> str:
    """Return the page with a new table of recorded effects. Raises ``ValueError`` for a missing marker."""
    before, begin, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{_PAGE}: missing the markers of the table: {_BEGIN} ... {_END}")
    return f"{before}{begin}\n\n{_mcp_table(read_mcp_seen())}\n\n{end}{after}"


def read_mcp_seen() -> Mapping[str, Mapping[str, str]]:
    """Return the recorded effect of each fault and its parameters on each client, if there is a record."""
    seen: dict[str, dict[str, str]] = json.loads(_SEEN.read_text(encoding="utf-8")) if _SEEN.exists() else {}
    return seen


def client_effects(fault: str, seen: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Describe the clients' reactions to the fault: one line for each tested set of parameters.

    Faults that were injected for no client are omitted.
    """
    for row, by_client in seen.items():
        clients_of: defaultdict[str, list[str]] = defaultdict(list)
        for client, saw in by_client.items():
            clients_of[saw].append(client)
        if row.partition(" (")[0] == fault and not all(saw.startswith("not injected") for saw in clients_of):
            whose = {saw: ", ".join(clients) for saw, clients in clients_of.items()}
            effects = (f"{'all' if len(whose) == 1 else names}: *{saw}*" for saw, names in whose.items())
            yield f"- `{row}`: {'; '.join(effects)}"


def _mcp_table(seen: Mapping[str, Mapping[str, str]]) -> str:
    clients = list(dict.fromkeys(client for row in seen.values() for client in row))
    rows = [("fault", *clients), ("---",) * (len(clients) + 1)]
    rows += [(f"`{fault}`", *(row.get(client, "") for client in clients)) for fault, row in seen.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


CLIENTS_DIALECTS = {
    "groq": "openai_chat",
    "openai": "openai_chat",
    "openai responses": "openai_responses",
    "anthropic": "anthropic",
    "google-genai": "gemini",
    "ollama": "ollama",
    "bedrock": "bedrock",
}
_NOT_ACTED = "not injected"


def dialect_rows(names: Sequence[str], seen: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each fault: its name, and ``JSON``, ``stream``, both or nothing for each dialect.

    ``seen``: the recorded effects of each fault on each client.
    """
    for name in names:
        proven = {dialect: _forms_acted_on(dialect, seen.get(name, {})) for dialect in dialect_columns()}
        if any(proven.values()):
            cells = (
                " and ".join(forms) or _without_form(dialect, seen[name]) for dialect, forms in proven.items()
            )
            yield (f"`{name}`", *cells)


def dialect_columns() -> list[str]:
    """Return the dialects without duplicates."""
    return list(dict.fromkeys(CLIENTS_DIALECTS.values()))


def _without_form(dialect: str, saw: Mapping[str, str]) -> str:
    """Return ``not in this dialect`` if a client of the dialect recorded it; else empty."""
    clients = [client for client, spoken in CLIENTS_DIALECTS.items() if spoken == dialect]
    missing = any(saw.get(client, "").endswith("not_in_dialect") for client in clients)
    return "not in this dialect" if missing else ""


def _forms_acted_on(dialect: str, saw: Mapping[str, str]) -> list[str]:
    """Return the forms of replies in which the fault acted for a client of the dialect."""
    clients = [client for client, spoken in CLIENTS_DIALECTS.items() if spoken == dialect]
    forms = {"JSON": clients, "stream": [f"{client}, stream" for client in clients]}
    return [
        form
        for form, columns in forms.items()
        if any(not saw[column].startswith(_NOT_ACTED) for column in columns if column in saw)
    ]


SEEN = Path("docs/faults_seen.json")
_TOXICS_SEEN = Path("docs/toxics_seen.json")


FAMILIES = {
    "http": "HTTP",
    "meaning": "The meaning of tool results",
    "model": "The model's replies",
    "context": "The model's context",
    "mcp": "MCP",
    "websocket": "WebSocket messages",
}


def fault_page(kind: type[Fault], level: int = 2) -> str:
    """Return a fault's section: its docstring, and its parameters with units, ranges and defaults."""
    head = f"{'#' * level} {kind.name}\n\n*{FAMILIES[kind.family]}; {place_of(kind)}*"
    causes = f"Errors of a try that it can cause: {causes_text(kind.can_cause)}."
    parts = [head, inspect.getdoc(kind) or "", causes, *_table(parameter_rows(kind))]
    return "\n\n".join(parts) + "\n"


def causes_text(kinds: Iterable[ErrorKind]) -> str:
    """Return the list of errors that a fault or a toxic can cause."""
    return ", ".join(f"`{kind}`" for kind in sorted_kinds(kinds)) or "none"


def _table(rows: Sequence[Row], head: Row = ("parameter", "default", "range", "meaning")) -> list[str]:
    """Return a Markdown table; empty without rows."""
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    return ["\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)]


def faults_page(seen: Mapping[str, Mapping[str, str]]) -> str:
    """Return ``docs/faults.md`` without its title. ``seen``: recorded effects, by fault and client."""
    return "\n\n".join(
        [
            *_contents(),
            "## Triggers: `when`",
            *_table(parameter_rows(When)),
            "A `window` has:",
            *_table(parameter_rows(Window)),
            "## Selectors: `only`",
            *_table(parameter_rows(Only)),
            "## The dose: `together`, `during`",
            "A toxic is drawn for each attempt and link, a fault for each try. Both last throughout the"
            " attempt unless their entry has one of these keys"
            " ([more](fault-sets.md#outages-inside-an-attempt)):",
            *_table(parameter_rows(Dose)),
            "An outage of `during` has:",
            *_table(parameter_rows(Outage)),
            "## Presets",
            *_table([(f"`{name}`", describe_preset(name)) for name in preset_names()], ("preset", "meaning")),
            *_families(),
            "## Dialects of models",
            "The table shows the form of each API's replies in which a fault acted, in tests with the"
            " provider's own client (for Ollama and Bedrock, with a plain client) and a server. A fault of"
            " event streams does not change whole replies. A fault without a form in a dialect is recorded as"
            " `not_in_dialect`.",
            *_table(list(dialect_rows([kind.name for kind in FAULTS], seen)), ("fault", *dialect_columns())),
            "## What clients see",
            *_seen(seen),
        ]
    )


def _contents() -> Iterator[str]:
    for family, title in FAMILIES.items():
        names = [f"[{kind.name}](#{kind.name})" for kind in FAULTS if kind.family == family]
        if names:
            yield f"**{title}**: {', '.join(names)}"


def _families() -> Iterator[str]:
    for family, title in FAMILIES.items():
        pages = [_with_clients(kind) for kind in FAULTS if kind.family == family]
        if pages:
            yield from (f"## {title}", *pages)


def _with_clients(kind: type[Fault]) -> str:
    """Return the section of a fault; for MCP faults with the clients' reactions."""
    page = fault_page(kind, 3).rstrip()
    lines = list(client_effects(kind.name, read_mcp_seen())) if kind.family == "mcp" else []
    heading = "How [MCP clients](mcp.md#how-clients-react) reacted over HTTP:"
    return "\n\n".join([page, heading, "\n".join(lines)]) if lines else page


def _seen(seen: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a table for each family, with a row for each fault and its tested parameters."""
    yield (
        "The tests recorded these effects: each fault with probability 1, injected by the gateway between a"
        " real client and a server. A cell has an exception, *silent* (the client accepted the changed"
        " answer), or the retries and their result."
    )
    families = {kind.name: kind.family for kind in FAULTS}
    order = list(families)
    rows = [row for row in seen if _fault_of(row) in families]
    for family, title in FAMILIES.items():
        of_family = sorted((row for row in rows if families[_fault_of(row)] == family), key=_order(order))
        for whose, of_tools in (("of tools", True), ("of models", False)):
            table = _seen_by(of_family, seen, of_tools)
            if table:
                yield from (f"### {title}: what clients {whose} see", *table)


def _seen_by(rows: Sequence[str], seen: Mapping[str, Mapping[str, str]], of_tools: bool) -> Sequence[str]:
    """Return the table of the tool clients or the model clients, with a column for each client."""
    clients = sorted({client for row in rows for client in seen[row] if _of_tools(client) == of_tools})
    tried = [row for row in rows if any(client in seen[row] for client in clients)]
    cells = [(f"`{row}`", *(seen[row].get(client, "") for client in clients)) for row in tried]
    return _table(cells, ("fault", *clients))


def _of_tools(client: str) -> bool:
    """Return whether the client calls tools: ``requests`` or the upstream's record. SDKs call models."""
    return client.startswith(("requests", "the upstream"))


def _order(names: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    return lambda row: (names.index(_fault_of(row)), row)


def _fault_of(row: str) -> str:
    """Return the name of a row's fault, without parameters."""
    return row.partition(" (")[0]


def toxics_seen() -> Iterator[str]:
    """Return the table of clients' reactions to the toxics that only the embedded server has."""
    seen = json.loads(_TOXICS_SEEN.read_text(encoding="utf-8")) if _TOXICS_SEEN.exists() else {}
    clients = sorted({client for row in seen.values() for client in row}, key=str.lower)
    rows = [(row, *(seen[row].get(client, "") for client in clients)) for row in seen]
    if rows:
        yield "### What clients see of toxics"
        yield (
            "The tests recorded these effects on real clients, over plain HTTP and by address; for"
            " `unresolved`, under the namespace tap. The limits are the clients' timeouts: for each read in"
            " httpx, requests and the OpenAI SDK, for the whole call in curl, fetch and Go. The limit for"
            " connecting is 1 s, in fetch a fixed 10 s."
        )
        yield from _table(rows, ("toxic", *clients))


def read_seen() -> Mapping[str, Mapping[str, str]]:
    """Return the recorded effects of each fault, if there is a record."""
    seen: dict[str, dict[str, str]] = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {}
    return seen
