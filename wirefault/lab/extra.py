"""The packages of the extra ``wirefault[lab]``, which the lab's own agent, services and charts need."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Container
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from wirefault.core.errors import UserError
from wirefault.subjects.loading import is_lab_subject
from wirefault.wiring.links import LAB
from wirefault.wiring.wiring import Wiring

_DISTRIBUTION = "wirefault"
_CHART_PACKAGES = frozenset({"matplotlib"})


class NotInstalled(UserError):
    """Packages are missing; the message has the command that installs them."""


def require_lab() -> None:
    """Raise ``NotInstalled`` unless the packages of the extra are installed."""
    _require("the lab needs")


def require_packages(wiring: Wiring, subject: str | None = None) -> None:
    """Raise ``NotInstalled`` if the wiring has parts of the lab whose packages are not installed.

    ``subject``: name of a subject that replaces the wiring's.
    """
    lab_subject = is_lab_subject(subject or "", wiring)
    if lab_subject or any(link.upstream == LAB for link in wiring.links):
        require_lab()


def require_charts() -> None:
    """Raise ``NotInstalled`` unless charts can be drawn."""
    _require("charts need", _CHART_PACKAGES)


def _require(what: str, names: Container[str] | None = None) -> None:
    try:
        installed = distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        return  # in the image and in a bare checkout, the lock file installed the packages
    required = [name for name in _lab_requirements(installed) if names is None or name in names]
    missing = [name for name in required if not _is_installed(name)]
    if missing:
        command = shlex.join([sys.executable, "-m", "pip", "install", _requirement(installed)])
        raise NotInstalled(f"{what} {', '.join(missing)}: {command}")


def _lab_requirements(installed: Distribution) -> list[str]:
    """The distributions that the extra requires, from lines like ``flask>=3; extra == "lab"``."""
    lines = [re.match(r"""([\w.-]+).*extra == ['"]lab['"]$""", line) for line in installed.requires or ()]
    return [line[1] for line in lines if line]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _requirement(installed: Distribution) -> str:
    """The requirement for pip: the source of this installation, or the name if it came from an index."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if "url" not in origin:
        return f"{_DISTRIBUTION}[lab]"
    repository = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f"{_DISTRIBUTION}[lab] @ {repository}{origin['url']}"
