"""Record the imports of all Python processes of an environment.

An audit hook writes each module's name to a file when it is looked up, so neither a fork nor an end by signal
loses any.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.package.installing import Environment, must

_HOOK = """
import os, sys

seen = set()
output = os.open({file!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

def write_name(event, arguments):
    if event == "import" and arguments[0] not in seen:
        seen.add(arguments[0])
        try:
            os.write(output, (arguments[0] + "\\n").encode())
        except OSError:  # the process has closed all its files
            pass

sys.addaudithook(write_name)
"""
_PACKAGES = (
    "from importlib.metadata import packages_distributions as p; import json; print(json.dumps([*p()]))"
)


class ImportRecord:
    """Import attempts in the environment from now on, whether the module was there or not."""

    def __init__(self, environment: Environment, file: Path) -> None:
        self._environment = environment
        self._file = file
        [site] = environment.path.glob("lib/python*/site-packages")
        (site / "record_imports.py").write_text(_HOOK.format(file=str(file)), encoding="utf-8")
        (site / "record_imports.pth").write_text("import record_imports\n", encoding="utf-8")

    def modules(self) -> set[str]:
        return set(self._file.read_text(encoding="utf-8").splitlines())

    def third_party(self) -> set[str]:
        """Top-level packages of installed distributions, without private modules."""
        command = [self._environment.python, "-P", "-c", _PACKAGES]
        installed = set(json.loads(must(command, self._environment.path)))
        names = {module.partition(".")[0] for module in self.modules()} & installed
        return {name for name in names if not name.startswith("_")} - {"wirefault"}
