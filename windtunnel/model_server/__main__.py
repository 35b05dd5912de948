"""``python -m windtunnel.model_server``: serves the scripted model on the model link's address."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from windtunnel.core.lifeline import watch
from windtunnel.core.sockets import listen
from windtunnel.links.catalog import MODEL_LINK
from windtunnel.links.topology import topology_from
from windtunnel.model_server.decide import Engine
from windtunnel.model_server.personas import Persona
from windtunnel.model_server.playbooks import PlaybookError, load_playbooks
from windtunnel.model_server.server import create_app

_HELP = f"""Serves the scripted model until SIGTERM or Ctrl-C: chat completions at /openai/v1 (and /v1), on
port {MODEL_LINK.port} of loopback, or where a lab has it.

It has no options; environment variables set it:
  PERSONA               {", ".join(each.value for each in Persona)}
  PLAYBOOKS             a file of playbooks that come before its own
  LISTEN_HOST           the host to listen on, in a container
  WINDTUNNEL_TOPOLOGY   a lab's file, which says where the model is
What it can answer: docs/scripted-model.md
"""


def _unknown_arguments() -> list[str]:
    """Shows the help and ends the process if that was asked for; else the arguments, of which it has none."""
    parser = argparse.ArgumentParser(
        prog="python -m windtunnel.model_server",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser.parse_known_args()[1]


def main() -> int:
    """Serves until it is told to stop or the launcher ends; 64 for a wrong setting, 1 for a taken port."""
    unknown = _unknown_arguments()
    if unknown:
        sys.stderr.write(f"{' '.join(unknown)}: the scripted model takes no arguments; see --help\n")
        return 64
    name, names = os.environ.get("PERSONA") or Persona.DILIGENT.value, [each.value for each in Persona]
    if name not in names:
        sys.stderr.write(f"PERSONA is {name!r}; it must be one of {', '.join(names)}\n")
        return 64
    try:
        own = os.environ.get("PLAYBOOKS")
        playbooks = load_playbooks(Path(own)).before(load_playbooks()) if own else load_playbooks()
    except PlaybookError as error:
        sys.stderr.write(f"{error}\n")
        return 64
    address = topology_from(os.environ).services["model"]
    try:
        listener = listen("model", address)
    except OSError as error:
        reason = f"cannot listen on {address}: {error.strerror}; free the port or set another"
        sys.stderr.write(f"the scripted model {reason}\n")
        return 1
    watch(os.environ, lambda: os._exit(0))
    app = create_app(Engine(playbooks).decide, Persona(name))
    # connections stay open between the requests of an agent that thinks for long
    config = uvicorn.Config(app, lifespan="off", ws="none", log_level="warning", access_log=False)
    config.timeout_keep_alive, config.timeout_graceful_shutdown = 120, 1
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
