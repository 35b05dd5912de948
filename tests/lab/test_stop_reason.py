"""The launcher's message to the processes of a lab, which read it at any time."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from wirefault.core.files import make_private_folder
from wirefault.core.processes import TOPOLOGY_VARIABLE, reason_to_stop, stop_file
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration

WHY = "the limit of time, 4 s, was reached"


def test_rewritten_file_is_never_partial(tmp_path: Path) -> None:
    make_private_folder()
    lab = Lab(load_configuration({"STATE_DB": str(tmp_path / "state.db")}), Choice("embedded"))
    enough = Event()

    def tell_again() -> None:
        while not enough.is_set():
            lab.tell(stop_file, WHY)

    lab.tell(stop_file, WHY)
    telling = Thread(target=tell_again)
    telling.start()
    try:
        heard = {reason_to_stop({TOPOLOGY_VARIABLE: str(lab.topology_path)}) for _ in range(5000)}
    finally:
        enough.set()
        telling.join()
        lab.stop()
    assert heard == {WHY}
