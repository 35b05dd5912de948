"""``python -m windtunnel.model_server``: serves the scripted model on the model link's address."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from windtunnel.core.lifeline import watch
from windtunnel.core.sockets import listen
from windtunnel.links.topology import topology_from
from windtunnel.model_server.decide import Engine, Persona
from windtunnel.model_server.playbooks import SHIPPED, PlaybookError, load_playbooks
from windtunnel.model_server.server import create_app


def _failed(code: int, message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return code


def main() -> int:
    """Serves until it is told to stop or the launcher ends; 64 for a wrong setting, 1 for a taken port."""
    name, names = os.environ.get("PERSONA") or Persona.DILIGENT.value, [each.value for each in Persona]
    if name not in names:
        return _failed(64, f"PERSONA is {name!r}; it must be one of {', '.join(names)}")
    own, address = os.environ.get("PLAYBOOKS"), topology_from(os.environ).services["model"]
    try:
        playbooks = load_playbooks(*([Path(own)] if own else []), SHIPPED)
        listener = listen("model", address)
    except PlaybookError as error:
        return _failed(64, str(error))
    except OSError as error:
        reason = f"cannot listen on {address}: {error.strerror}; free the port or set another"
        return _failed(1, f"the scripted model {reason}")
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
