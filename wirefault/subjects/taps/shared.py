"""``python -m wirefault.subjects.taps.shared FOLDER``: a tap's files, for a subject in another container.

Certificates and the preload for Node, in a volume that the subject's container mounts read-only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import copyfile

from wirefault.settings.settings import SettingsError
from wirefault.subjects.taps.opening import authority_of
from wirefault.subjects.taps.proxy import PRELOAD
from wirefault.subjects.taps.trust import write_trust
from wirefault.wiring.topology import topology_from

_ANY_RUNTIME = {"JAVA_HOME": "unknown"}  # what the subject's image has cannot be seen from here


def write_shared_files(folder: Path, authority: str) -> None:
    """Writes what the variables of compose.subject.yaml name. Raises ``OSError``."""
    write_trust(folder, authority, _ANY_RUNTIME)
    copyfile(PRELOAD, folder / PRELOAD.name)
    for file in folder.iterdir():
        file.chmod(0o644)  # whoever the subject is in its container


def main(folder: str) -> int:
    """0 once the files are there, else 1 after one line that says what is wrong."""
    try:
        topology = topology_from(os.environ)
        if topology.front is None:
            raise SettingsError(
                f"{os.environ.get('WIRING')} intercepts nothing: write `intercept: {{}}`, or `intercept:"
                " {offline: true}` for a subject that has all its links by address"
            )
        write_shared_files(Path(folder), authority_of(topology.control))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"front: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
