"""``wirefault lab init``: copy the lab and the library into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from wirefault.core.lab_folder import CARRIED, LAB_FILES, LIBRARY, MARKER, lab_root

_MARK = """\
This folder was made by `wirefault lab init`: here, the command runs the code in this folder, wirefault/
included. Without this file it runs the installed code.
"""


class FolderInUse(Exception):
    """A file of the lab already exists; the message names it."""


def write_lab(folder: Path) -> None:
    """Write the lab into the folder, and create it. Raises ``FolderInUse`` or ``OSError``.

    Never overwrites anything.
    """
    sources = {name: lab_root() / name for name in LAB_FILES} | {LIBRARY.name: LIBRARY}
    for name in (*sources, MARKER):
        if (folder / name).exists():
            raise FolderInUse(f"{folder / name} already exists; name a new folder: wirefault lab init DIR")
    for name, source in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", CARRIED)
            # without modes: an installation may be read-only
            shutil.copytree(source, target, ignore=unwanted, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, target)
    (folder / MARKER).write_text(_MARK, encoding="utf-8")
