"""What clients of MCP made of each fault, as the table in ``docs/mcp.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_PAGE, _SEEN = Path("docs/mcp.md"), Path("docs/mcp_seen.json")
_BEGIN, _END = "<!-- made by `make docs` from docs/mcp_seen.json; do not edit -->", "<!-- until here -->"


def mcp_page() -> str:
    """The page with its table made anew from what the tests noted. Without a place for it: ``ValueError``."""
    before, begin, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{_PAGE}: no place for the table: {_BEGIN} ... {_END}")
    seen = json.loads(_SEEN.read_text(encoding="utf-8")) if _SEEN.exists() else {}
    return f"{before}{begin}\n\n{_table(seen)}\n\n{end}{after}"


def _table(seen: Mapping[str, Mapping[str, str]]) -> str:
    clients = list(dict.fromkeys(client for row in seen.values() for client in row))
    rows = [("fault", *clients), ("---",) * (len(clients) + 1)]
    rows += [(f"`{fault}`", *(row.get(client, "") for client in clients)) for fault, row in seen.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
