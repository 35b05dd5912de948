"""Put the lab's files into the library as data, so that a wheel has one top-level package."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # a build's environment does not contain this folder

from wirefault.core.lab_folder import CARRIED, LAB_FILES  # noqa: E402


def carried_files() -> list[str]:
    """Return every file of the lab, relative to this folder."""
    paths = [path for name in LAB_FILES for path in (HERE / name, *sorted((HERE / name).rglob("*")))]
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return [str(path.relative_to(HERE)) for path in files]


class BuildWithLab(build_py):
    """Copy the lab's files into the built library; an editable installation finds them in the checkout."""

    def run(self) -> None:
        super().run()
        for file, target in self._targets().items():
            self.mkpath(str(Path(target).parent))
            self.copy_file(file, target)

    def _targets(self) -> dict[str, str]:
        if self.editable_mode:
            return {}
        return {file: str(Path(self.build_lib, "wirefault", CARRIED, file)) for file in carried_files()}

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self._targets().values()]

    def get_source_files(self) -> list[str]:
        """Return the other files of a source distribution besides this file and pyproject.toml."""
        return [*super().get_source_files(), *carried_files()]


setup(cmdclass={"build_py": BuildWithLab})
