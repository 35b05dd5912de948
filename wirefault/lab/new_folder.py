"""``wirefault lab init``: the whole lab, and the library that it runs on, in a folder to play with."""

from __future__ import annotations

import shutil
from pathlib import Path

from wirefault.core.lab_folder import CARRIED, LAB_FILES, LIBRARY, MARKER, lab_root

_MARK = """\
This folder was made by `wirefault lab init`: here the command runs what lies here, the library in wirefault/
included. Without this file it runs what was installed.
"""


class FolderInUse(Exception):
    """Something that ``write_lab`` would write is there already; the message names it."""


def write_lab(folder: Path) -> None:
    """Writes the lab into the folder, which is made if need be. Raises ``FolderInUse`` or ``OSError``.

    Nothing is written where anything would be overwritten.
    """
    sources = {name: lab_root() / name for name in LAB_FILES} | {LIBRARY.name: LIBRARY}
    for name in (*sources, MARKER):
        if (folder / name).exists():
            raise FolderInUse(f"{folder / name} is there already; name a new folder: wirefault lab init DIR")
    for name, source in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", CARRIED)
            # not the modes: an installation may be read-only
            shutil.copytree(source, target, ignore=unwanted, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, target)
    (folder / MARKER).write_text(_MARK, encoding="utf-8")
