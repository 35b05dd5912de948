"""Count the files of this project that one calm prompt of the demo enters, over all its processes.

    python tools/files_entered.py [--list]

A file counts if one of its functions ran; with ``--imports``, also if it was only imported. Every Python
process gets a profile hook through ``sitecustomize``; forked ones inherit it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOOK = """
import os, sys, threading
ROOT, OUT, BODIES = {root!r}, {out!r}, {bodies!r}
SEEN = {{}}
def hook(frame, event, _):
    if event == "call":
        code = frame.f_code
        name = code.co_filename
        if name not in SEEN or SEEN[name] != os.getpid():
            if name.startswith(ROOT) and ".venv" not in name and (BODIES or code.co_flags & 1):
                SEEN[name] = os.getpid()
                with open(OUT, "a") as file:
                    file.write(name[len(ROOT) + 1:] + "\\n")
            elif not name.startswith(ROOT):
                SEEN[name] = os.getpid()
sys.setprofile(hook)
threading.setprofile(hook)
"""


def entered_files(*, bodies: bool) -> list[str]:
    """Return the paths, relative to the checkout. Raises ``CalledProcessError`` if the demo fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "entered.txt")
        hook = HOOK.format(root=str(ROOT), out=str(out), bodies=bodies)
        Path(folder, "sitecustomize.py").write_text(hook, encoding="utf-8")
        command = [
            str(Path(sys.executable).with_name("wirefault")),
            "demo",
            "--only",
            "1",
            "--seed",
            "1",
            "--no-charts",
        ]
        calm = ["--toxic-prob", "0", "--error-prob", "0", "--toxiproxy", "embedded", "--out", folder]
        environ = os.environ | {"PYTHONPATH": folder}
        subprocess.run([*command, *calm], env=environ, cwd=folder, check=True, capture_output=True)
        return sorted(set(out.read_text(encoding="utf-8").split()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print the files, too")
    parser.add_argument("--imports", action="store_true", help="count files that are only imported, too")
    chosen = parser.parse_args()
    files = entered_files(bodies=chosen.imports)
    if chosen.list:
        print(*files, sep="\n")
    print(f"{len(files)} files entered")


if __name__ == "__main__":
    main()
