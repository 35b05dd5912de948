"""Writes ``docs/conformance.md``: one row per test, with the result for each server."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.kinds import COMPARED, WITH_MODULE

FOLDER = Path(__file__).parent
SECTIONS = (
    *("api_proxies", "api_toxics", "api_population", "differential", "clients"),
    *("clean_path", *WITH_MODULE, "toxicity", "together", "transfers", "down", "signatures"),
    "changes_under_load",
)
_KINDS_OF_TWO_WORDS = [toxic.kind for toxic in COMPARED if "_" in toxic.kind]
SERVERS = {
    "embedded": "the embedded server",
    "real": "the real one",
    "given": "the server at TOXIPROXY_CONFORMANCE_URL",
}
INTRO = """\
The embedded Toxiproxy and the real one pass the same tests (`tests/conformance`). Each row is one
test; the number is its count of variants (streams, values). Durations are compared with lower bounds
and with each other only, since lateness depends on the machine.

- `make conformance` runs the suite and rewrites this page. Set `TOXIPROXY_SERVER` to the real server's path,
  or put `toxiproxy-server` on `PATH`; without it the column says "not run".
- `TOXIPROXY_CONFORMANCE_URL=http://127.0.0.1:8474 make test ARGS=tests/conformance` tests a running server
  on this machine: the suite provides the upstreams on loopback. It deletes whatever it creates;
  two tests call `/reset`, which heals all proxies of that server.
- With `WIREFAULT_REQUIRE=toxiproxy` a missing real server is a failure instead of a skip.
"""
KNOWN = """\
## Known differences

Intended, so not compared:

- A malformed body gets the status 400 from both; each server words the error itself.
- Values that crash the real server when data arrives (a negative `rate`, an `average_size` of 0, a
  `size_variation` above `average_size`, a `jitter` beyond 2^62) do not crash the embedded one. It treats a
  rate below 0 as 0, a size below 1 as 1, and a variation above the size as the size.
- The real server delays a change of toxics while a peer does not read (503 after 25 s; meanwhile the
  proxy accepts no new connection), while a `reset_peer` has seen data and waits to reset, and while a
  `limit_data` closes on released data (for seconds). The embedded server replies at once and drops nothing.
- Once a toxic has closed a connection on which a later toxic still holds data, the real server loses count of
  the toxics of that connection (read in its source, not tried). The embedded one does not.
- The real server accepts a proxy's connections one by one, and none while it dials the upstream.
- `-seed` and `-runtime-metrics` (of the Go runtime) are missing; `-seed` has no effect on the real server.
  `-proxy-metrics` is `--proxy-metrics`, with the same text at `/metrics`; the real server ignores errors in
  its `-config` file, the embedded one reports them.
- A toxic with `in_toxiproxy = False` exists in the embedded server only.
- For an unknown host the real server's error also names the DNS server.
- The embedded server refuses JSON nested deeper than about 900 levels, the real one beyond 10000.
- Invalid HTTP gets the reply of a different HTTP library. `X-Toxiproxy-Request-Id` is present
  in another format. Requests are not logged.
- The order of simultaneous events, and how bytes that arrive together are split
  into packets, are unspecified in both.
"""


class Results:
    """Outcomes by section, test and server."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self._counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))

    def note(self, module: str, test: str, server: str, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._counts[_section(module), test, server][report.outcome] += 1

    def cell(self, section: str, test: str, server: str) -> str:
        counts = self._counts.get((section, test, server), {})
        if counts.get("failed"):
            return f"**fails**, {counts['failed']} of {sum(counts.values())}"
        return f"holds, {counts['passed']}" if counts.get("passed") else "not run"


def _section(module: str) -> str:
    return module.rpartition(".")[2].removeprefix("test_")


def rows() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Section, title, and the section's tests with the behaviour that each shows."""
    for section in SECTIONS:
        tree = ast.parse((FOLDER / f"test_{section}.py").read_text(encoding="utf-8"))
        tests = [
            (node.name, _behaviour(node))
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        yield section, (ast.get_docstring(tree) or section).splitlines()[0].rstrip("."), tests


def _behaviour(test: ast.FunctionDef) -> str:
    """The test's docstring, else its name in words."""
    written = ast.get_docstring(test)
    if written:
        return written.splitlines()[0].rstrip(".")
    text = test.name.removeprefix("test_").replace("_", " ")
    for kind in _KINDS_OF_TWO_WORDS:
        text = text.replace(kind.replace("_", " "), f"`{kind}`")
    return text[0].upper() + text[1:]


def page(results: Results) -> str:
    servers = [server for server in SERVERS if server in results.versions] or ["embedded"]
    lines = ["# Conformance", "", "<!-- made by `make conformance`; do not edit -->", "", INTRO]
    lines += ["| server | version |", "|---|---|"]
    lines += [f"| {SERVERS[server]} | {results.versions.get(server, 'not run')} |" for server in servers]
    for section, title, tests in rows():
        lines += ["", f"## {title}", "", "| behaviour | " + " | ".join(servers) + " |"]
        lines += ["|---|" + "---|" * len(servers)]
        lines += [
            f"| {behaviour} | " + " | ".join(results.cell(section, name, server) for server in servers) + " |"
            for name, behaviour in tests
        ]
    return "\n".join(lines) + "\n\n" + KNOWN


def listed(text: str) -> list[str]:
    """The behaviours listed in a page."""
    cells = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell not in ("server", "behaviour", *SERVERS.values())]
