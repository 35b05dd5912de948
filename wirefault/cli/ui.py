"""``wirefault ui``: the recorded runs as pages on this machine."""

from __future__ import annotations

import signal
import sys
import webbrowser
from pathlib import Path

import click

from wirefault.cli.help import Command, option
from wirefault.core.errors import UserError

_PORT = 8090


@click.command(
    "ui", cls=Command, examples=("wirefault ui --open", "wirefault ui --out ../other-lab --port 9090")
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    help="Read logs/ of this folder, or of its .wirefault/.  [default: .]",
)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Serve on this port of 127.0.0.1; 0, or one that is taken: any free one.",
)
@option("--open", "opens", is_flag=True, help="Open it in the browser.")
def ui_command(out: Path | None, port: int, opens: bool) -> None:
    """Show the recorded runs as pages on this machine: a list, each run, two side by side.

    It only reads. A page loads itself again when its run has changed. Ctrl-C ends it.
    """
    # --help must not import the server
    from threading import Event

    from wirefault.cli.options import environ_below, logs_in
    from wirefault.core.api_server import api_in_thread
    from wirefault.core.sockets import LOOPBACK, Address, bind_or_replace, bound_address
    from wirefault.report.ui.app import ui_app

    environ = environ_below(out)
    logs = logs_in(environ)
    try:
        listener = bind_or_replace(Address(LOOPBACK, port))
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}") from None
    at = bound_address(listener)
    if port and at.port != port:
        click.echo(f"port {port} is taken: using {at.port}", err=True)
    with api_in_thread(ui_app(logs, environ), listener):
        click.echo(f"runs of {logs}: http://{at.host}:{at.port}/  (Ctrl-C ends it)")
        sys.stdout.flush()
        if opens:
            webbrowser.open(f"http://{at.host}:{at.port}/")
        ended = Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()
