"""The surroundings of commands: the packages of ``wirefault[lab]``, and the folder of the logs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import click

from wirefault.core.errors import LAB_FAILED

_DISTRIBUTION = "wirefault"


class LabNotInstalled(click.ClickException):
    exit_code = LAB_FAILED


def require_lab() -> None:
    """Raises ``LabNotInstalled``, with the command that helps, unless all is there that the lab needs."""
    try:
        installed = distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        return  # the image and a bare checkout: what they need was installed by the lock file
    missing = [name for name in _lab_requirements(installed) if not _is_installed(name)]
    if missing:
        command = shlex.join([sys.executable, "-m", "pip", "install", _requirement(installed)])
        raise LabNotInstalled(f"the lab needs {', '.join(missing)}: {command}")


def _lab_requirements(installed: Distribution) -> list[str]:
    """The names of the distributions that the extra asks for, by lines like ``flask>=3; extra == "lab"``."""
    lines = [re.match(r"""([\w.-]+).*extra == ['"]lab['"]$""", line) for line in installed.requires or ()]
    return [line[1] for line in lines if line]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _requirement(installed: Distribution) -> str:
    """The requirement for pip: from where this was installed, if that was no package index."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if "url" not in origin:
        return f"{_DISTRIBUTION}[lab]"
    repository = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f"{_DISTRIBUTION}[lab] @ {repository}{origin['url']}"


def environ_below(out: Path | None) -> dict[str, str]:
    """The environment, with state and logs below that folder."""
    environ = dict(os.environ)
    if out is not None:
        environ |= {
            "STATE_DB": str(out / "state" / "state.db"),
            "EFFECTS_DB": str(out / "state" / "effects.db"),
            "LOGS_DIR": str(out / "logs"),
        }
    return environ


def logs_in(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("LOGS_DIR") or "logs")
