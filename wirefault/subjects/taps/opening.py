"""Opens the best tap that a wiring and this system allow.

``python -m wirefault.subjects.taps.opening FOLDER`` writes a tap's files, certificates and the preload for
Node, to a volume that a subject's container mounts read-only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfile

import requests

from wirefault.core.private_files import tap_folder
from wirefault.core.processes import TOPOLOGY_VARIABLE, ingress_file
from wirefault.core.sockets import Address
from wirefault.settings.configuration import Configuration, running_lab
from wirefault.settings.settings import SettingsError
from wirefault.subjects.taps.namespace import NoNamespaceError, namespace_tap
from wirefault.subjects.taps.tap import NO_TAP, PRELOAD, Tap, Trust, proxy_tap, write_trust
from wirefault.subjects.taps.watch import can_list_sockets
from wirefault.wiring.topology import topology_from
from wirefault.wiring.wiring import InterceptSpec, Wiring

_AUTHORITY_BOUND_S = 10.0


@contextmanager
def open_tap(wiring: Wiring, configuration: Configuration) -> Iterator[Tap]:
    """Open the tap for a wiring's subject within the block; ``NO_TAP`` where nothing is intercepted.

    Its files (certificates, no key) are in a private folder that is removed afterwards. Raises
    ``SettingsError`` if the wiring requires a tap that is not available.
    """
    ingress = configuration.topology.ingress
    if wiring.intercept is None or ingress is None:
        yield NO_TAP
        return
    authority = authority_of(configuration.topology.control)
    with _folder() as folder:
        trust = write_trust(folder, authority, configuration.environ)
        yield _best(wiring.intercept, wiring.file, folder, ingress, trust, configuration)


def _best(
    spec: InterceptSpec,
    where: str,
    folder: Path,
    ingress: Address,
    trust: Trust,
    configuration: Configuration,
) -> Tap:
    if spec.tap == "proxy":
        return proxy_tap(ingress, trust, watched=can_list_sockets(), offline=spec.offline)
    try:
        databases = [configuration.state, configuration.effects]
        return namespace_tap(folder, _ingress_socket(configuration), trust, configuration.environ, databases)
    except NoNamespaceError as error:
        if spec.tap == "namespace":
            raise SettingsError(
                f"{where or 'the command line'}: tap: namespace: {error}; tap: proxy needs no namespaces"
            ) from None
        return proxy_tap(ingress, trust, str(error), watched=can_list_sockets(), offline=spec.offline)


def _ingress_socket(configuration: Configuration) -> Path:
    """Return where the running lab's ingress takes offers of namespace taps. Raises ``NoNamespaceError``."""
    topology = configuration.environ.get(TOPOLOGY_VARIABLE)
    if not topology:
        running = running_lab(configuration.state)
        topology = str(running["topology"]) if running else ""
    path = ingress_file(Path(topology)) if topology else None
    if path is None or not path.exists():
        raise NoNamespaceError("the lab's ingress does not run on this machine")
    return path


def authority_of(control: Address) -> str:
    """Return the certificate of the gateway's authority as PEM. Raises ``SettingsError``."""
    try:
        with requests.Session() as session:
            session.trust_env = False
            reply = session.get(f"{control.url}/authority", timeout=_AUTHORITY_BOUND_S)
            reply.raise_for_status()
            return str(reply.json()["pem"])
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"intercept: cannot read the certificate of the gateway at {control}: {error}"
        ) from None


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a private folder for the duration of the block. Raises ``SettingsError``."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tap_folder())
        except OSError as error:
            raise SettingsError(f"intercept: {error}") from None
        yield folder


_ANY_RUNTIME = {"JAVA_HOME": "unknown"}  # the subject's image is not visible from here


def write_shared_files(folder: Path, authority: str) -> None:
    """Write the files that the variables in compose.subject.yaml name. Raises ``OSError``."""
    write_trust(folder, authority, _ANY_RUNTIME)
    copyfile(PRELOAD, folder / PRELOAD.name)
    for file in folder.iterdir():
        file.chmod(0o644)  # the subject may run as any user in its container


def main(folder: str) -> int:
    """Return 0 once the files are written, else 1 after one line with the problem."""
    try:
        topology = topology_from(os.environ)
        if topology.ingress is None:
            raise SettingsError(
                f"{os.environ.get('WIRING')} intercepts nothing: write `intercept: {{}}`, or `intercept:"
                " {offline: true}` for a subject that has all its links by address"
            )
        write_shared_files(Path(folder), authority_of(topology.control))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"ingress: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
