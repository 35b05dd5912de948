"""``python -m wirefault.model_server``: serve the scripted model at the address of the topology."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wirefault.core.errors import InputError
from wirefault.core.processes import watch_lifeline
from wirefault.core.sockets import listen
from wirefault.model_server.decide import Persona, decide
from wirefault.model_server.playbooks import SHIPPED, load_playbooks
from wirefault.model_server.server import create_app
from wirefault.wiring.links import SCRIPTED
from wirefault.wiring.topology import topology_from

_PERSONAS = ", ".join(each.value for each in Persona)
_HELP = f"""Serve chat completions on port 5007 of loopback, or at the address in WIREFAULT_TOPOLOGY.
Settings: PERSONA ({_PERSONAS}), PLAYBOOKS (a file that precedes the shipped one), LISTEN_HOST."""


def main() -> int:
    """Serve until a signal or the launcher's end; return 64 for an invalid setting, 1 for a port in use."""
    unknown = ArgumentParser("python -m wirefault.model_server", description=_HELP).parse_known_args()[1]
    name, own = os.environ.get("PERSONA") or Persona.DILIGENT.value, os.environ.get("PLAYBOOKS")
    address = topology_from(os.environ).scripted
    try:
        if unknown or name not in _PERSONAS.split(", "):
            wrong = f"PERSONA is {name!r}; it must be one of {_PERSONAS}"
            raise InputError(f"unknown argument {' '.join(unknown)}; see --help" if unknown else wrong)
        playbooks = load_playbooks(*([Path(own)] if own else []), SHIPPED)
        listener = listen(SCRIPTED, address)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 64
    except OSError as error:
        reason = f"cannot listen on {address}: {error.strerror}; free the port or set another"
        sys.stderr.write(f"the scripted model {reason}\n")
        return 1
    watch_lifeline(os.environ, lambda: os._exit(0))
    app = create_app(partial(decide, playbooks), Persona(name))
    # connections stay open between the requests of a slow agent
    config = uvicorn.Config(
        app, http=HttpToolsProtocol, ws="none", lifespan="off", log_level="warning", access_log=False
    )
    config.timeout_keep_alive, config.timeout_graceful_shutdown = 120, 1
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
