"""What clients of MCP made of each fault, as the table in ``docs/mcp.md``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

_PAGE, _SEEN = Path("docs/mcp.md"), Path("docs/mcp_seen.json")
_BEGIN, _END = "<!-- made by `make docs` from docs/mcp_seen.json; do not edit -->", "<!-- until here -->"


def mcp_page() -> str:
    """The page with its table made anew from what the tests noted. Without a place for it: ``ValueError``."""
    before, begin, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{_PAGE}: no place for the table: {_BEGIN} ... {_END}")
    return f"{before}{begin}\n\n{_table(read_mcp_seen())}\n\n{end}{after}"


def read_mcp_seen() -> Mapping[str, Mapping[str, str]]:
    """What each client saw of each fault, by the fault with its parameters; empty before a test noted it."""
    seen: dict[str, dict[str, str]] = json.loads(_SEEN.read_text(encoding="utf-8")) if _SEEN.exists() else {}
    return seen


def told_by_clients(fault: str, seen: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Of the fault, with each of the parameters that were tried, what its clients made of it, a line each.

    Without those that struck none of them.
    """
    for row, by_client in seen.items():
        clients_of: defaultdict[str, list[str]] = defaultdict(list)
        for client, saw in by_client.items():
            clients_of[saw].append(client)
        if row.partition(" (")[0] == fault and not all(saw.startswith("not injected") for saw in clients_of):
            whose = {saw: ", ".join(clients) for saw, clients in clients_of.items()}
            told = (f"{'all' if len(whose) == 1 else names}: *{saw}*" for saw, names in whose.items())
            yield f"- `{row}`: {'; '.join(told)}"


def _table(seen: Mapping[str, Mapping[str, str]]) -> str:
    clients = list(dict.fromkeys(client for row in seen.values() for client in row))
    rows = [("fault", *clients), ("---",) * (len(clients) + 1)]
    rows += [(f"`{fault}`", *(row.get(client, "") for client in clients)) for fault, row in seen.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
