"""``python -m wirefault.report.ui``: the service ``ui`` of Compose, until SIGTERM or SIGINT."""

from __future__ import annotations

import os
import sys

from wirefault.core.api_server import api_in_thread, wait_for_signal
from wirefault.core.lab_folder import logs_folder, state_file
from wirefault.core.sockets import LOOPBACK, UI_PORT, Address, bind
from wirefault.report.ui.app import ui_app
from wirefault.report.ui.lab import LabWatch, lab_finder


def main() -> int:
    """Serve on ``LISTEN_HOST``, which Compose publishes on loopback. Returns the exit code."""
    logs = logs_folder(os.environ)
    at = Address(os.environ.get("LISTEN_HOST") or LOOPBACK, UI_PORT)
    try:
        lab = LabWatch(logs, lab_finder(os.environ, state_file(os.environ).parent))
        listener = bind(at)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"ui: {at}: {error}\n")
        return 1
    with api_in_thread(ui_app(logs, os.environ, lab), listener):
        wait_for_signal()
    return 0


if __name__ == "__main__":
    sys.exit(main())
