"""``wirefault ui``: the recorded runs as pages on this machine."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import click

from wirefault.cli.help import Command, option
from wirefault.core.errors import UserError
from wirefault.core.sockets import UI_PORT


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
    default=UI_PORT,
    show_default=True,
    help="Serve on this port of 127.0.0.1; 0, or one that is taken: any free one.",
)
@option("--open", "opens", is_flag=True, help="Open it in the browser.")
def ui_command(out: Path | None, port: int, opens: bool) -> None:
    """Show the recorded runs as pages on this machine: a list, each run, two side by side.

    Also the lab that is up, live: links, toxics in force, last requests. It only reads. The page of a run in
    progress takes in each episode as it ends. Ctrl-C ends it.
    """
    # --help must not import the server
    from wirefault.cli.options import environ_below, logs_in
    from wirefault.core.api_server import api_in_thread, wait_for_signal
    from wirefault.core.lab_folder import state_file
    from wirefault.core.sockets import LOOPBACK, Address, bind_or_replace, bound_address
    from wirefault.report.ui.app import ui_app
    from wirefault.report.ui.lab import LabWatch, lab_finder

    environ = environ_below(out)
    logs = logs_in(environ)
    try:
        listener = bind_or_replace(Address(LOOPBACK, port))
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}") from None
    at = bound_address(listener)
    if port and at.port != port:
        click.echo(f"port {port} is taken: using {at.port}", err=True)
    lab = LabWatch(logs, lab_finder(environ, state_file(environ).parent))
    with api_in_thread(ui_app(logs, environ, lab), listener):
        click.echo(f"runs of {logs}: http://{at.host}:{at.port}/  (Ctrl-C ends it)")
        sys.stdout.flush()
        if opens:
            webbrowser.open(f"http://{at.host}:{at.port}/")
        wait_for_signal()
