"""``... pipe_server SETTINGS COMMAND ...``: runs an MCP server that a launcher recognised, through the lab.

The command's link is named after it; the tap's ingress makes it when it is called for the first time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path, PurePath

from wirefault.core.errors import UserError
from wirefault.core.sockets import Address
from wirefault.gateway.intercept.pipes import CLIENT_PORT, SERVER_PORT, PipeServer
from wirefault.subjects.stdio_shim.lab_connection import LabLane, StdioLink, connect_to_lab
from wirefault.subjects.stdio_shim.relay import Relay, ServerProcess

_LINK = "server"
_RUNNERS = re.compile(
    r"(?:python|node|npx|npm|pnpm|yarn|bun|bunx|deno|uv|uvx|pipx|docker|podman|java|tsx|ruby)[\d.]*"
)
_SUBCOMMANDS = frozenset({"run", "exec", "dlx", "tool", "x", "start", "--"})
_CHANGING = re.compile(r"/(?:tmp|var/folders)/\S+|\d{5,}|[0-9a-f]{8,}")
"""Parts of a command that differ from run to run: temporary files, ports, ids."""


def server_name(words: Sequence[str]) -> str:
    """Return a link's name for the command: after its script or package, else its program."""
    rest = [word for word in words[1:] if not word.startswith("-") and word not in _SUBCOMMANDS]
    program = PurePath(words[0]).name
    chosen = rest[0] if _RUNNERS.fullmatch(program) and rest else program
    if program.startswith(("docker", "podman")) and rest:
        chosen = rest[-1]
    name = PurePath(chosen.rstrip("/").partition("@latest")[0]).name.partition("@")[0] or program
    name = re.sub(r"\.(?:py|js|mjs|cjs|ts|jar|rb)$", "", name)
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:32]
    return plain if plain[:1].isalpha() else f"server_{plain}".rstrip("_")


def digest_of(words: Sequence[str]) -> str:
    """Return the same text for all runs of a command."""
    same = _CHANGING.sub("*", "\0".join([PurePath(words[0]).name, *words[1:]]))
    return blake2b(same.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def main(settings_file: str, *words: str) -> int:
    """Return the server's exit code, or 70 if it cannot be led through the lab."""
    settings = json.loads(Path(settings_file).read_text(encoding="utf-8"))
    host = PipeServer(server_name(words), digest_of(words)).host
    link = StdioLink(Address(host, CLIENT_PORT), Address(host, SERVER_PORT), [])
    lane = LabLane(Path(settings_file), settings["lab_id"], 0, Address(host, SERVER_PORT), {_LINK: link}, "")
    try:
        connection = connect_to_lab(lane, _LINK)
        server = ServerProcess(words, "")
    except (UserError, OSError) as error:
        sys.stderr.write(f"wirefault: {server_name(words)}: {error}\n")
        return 70
    return Relay(connection, server).run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
