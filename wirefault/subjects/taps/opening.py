"""Open the best tap that a wiring and this system allow: a namespace, else a proxy.

In the namespace tap the subject runs in its own network namespace, and all connections go to the ingress.

``python -m wirefault.subjects.taps.opening FOLDER`` writes a tap's files (certificates and the preload
for Node) to a volume that a subject's container mounts read-only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shutil import copy, copyfile, copytree, ignore_patterns, which

import requests

from wirefault.core.files import private_folder
from wirefault.core.private_files import tap_folder
from wirefault.core.processes import TOPOLOGY_VARIABLE, ingress_file
from wirefault.core.sockets import Address
from wirefault.settings.configuration import Configuration, running_lab
from wirefault.settings.settings import SettingsError
from wirefault.subjects.taps.pipes import write_launchers
from wirefault.subjects.taps.tap import (
    FUNCTIONS,
    NO_TAP,
    PRELOAD,
    PROXY_VARIABLES,
    SYSTEM_BUNDLES,
    Tap,
    Trust,
    proxy_tap,
    write_trust,
)
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


@contextmanager
def trust_files(authority: str, environ: Mapping[str, str]) -> Iterator[Trust]:
    """Write the certificates that a tap's programs trust, for the block. Raises ``SettingsError``."""
    with _folder() as folder:
        yield write_trust(folder, authority, environ)


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
    """Return the socket of the running lab's ingress for namespace taps. Raises ``NoNamespaceError``."""
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
    """Create a private folder for the block. Raises ``SettingsError``."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tap_folder())
        except OSError as error:
            raise SettingsError(f"intercept: {error}") from None
        yield folder


_ENTER = str(Path(__file__).with_name("enter.py"))
_HELPER = str(Path(__file__).with_name("helper.py"))
_TRIAL_BOUND_S = 20.0
# often not on a user's PATH
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Processes outside serve these, and return other addresses than the ingress. Without them a client asks the
# server in resolv.conf.
_NAME_SERVICES = ("/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket", "/var/run/nscd/socket")
_RESOLVER = "/etc/resolv.conf"
# capabilities with which root inside could join the network outside, or read the lab's processes:
# CAP_SYS_MODULE, _SYS_RAWIO, _SYS_PTRACE, _SYS_ADMIN, _PERFMON, _BPF, _CHECKPOINT_RESTORE
_DROPPED = (16, 17, 19, 21, 38, 39, 40)
# where Debian's OpenSSL looks for a bundle that Debian does not install
_OPENSSL = Path("/usr/lib/ssl")


class NoNamespaceError(Exception):
    """This system does not allow the namespace tap; the message has the reason."""


def namespace_tap(
    folder: Path, ingress: Path, trust: Trust, environ: Mapping[str, str], databases: Sequence[Path] = ()
) -> Tap:
    """Return a namespace tap with its files in ``folder``, for the ingress that listens at a path.

    Inside it the ``databases`` are empty, and the user's private folder has only the files of this lab and
    this tap. Starts it once as a trial. Raises ``NoNamespaceError``.
    """
    if sys.platform != "linux":
        raise NoNamespaceError("only Linux has network namespaces")
    search = os.pathsep.join([environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    tools = {name: which(name, path=search) for name in ("unshare", "ip", "nft")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        raise NoNamespaceError(f"missing program {' and '.join(missing)}")
    unshare, is_root = str(tools["unshare"]), os.geteuid() == 0
    own_user = [unshare, "-U", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}", "--"]
    lab_id = "-".join(ingress.stem.split("-")[:2])  # without the lane
    launchers = write_launchers(folder, lab_id, environ)
    setup = {
        "ip": tools["ip"],
        "nft": tools["nft"],
        "ingress": str(ingress),
        "helper": _HELPER,
        "mounts": [*_mounts(folder, trust), *_emptied(folder, databases)],
        "private": _private_view(folder, ingress),
        "drop": list(_DROPPED) if is_root else [],  # others have no rights outside their own namespace
        "bundle": str(trust.bundle),
        "launchers": str(launchers),
        "restore": [] if is_root else own_user,  # restores the user after being root in the namespace
    }
    file = folder / "namespace.json"
    file.write_text(json.dumps(setup), encoding="utf-8")
    prefix = [unshare, "-mn" if is_root else "-Urmn", "--", sys.executable, "-I", "-S", _ENTER, str(file)]
    _try(prefix)
    return Tap(
        kind="namespace",
        wrap=partial(_wrapped, prefix),
        variables=trust.variables,
        appended={"JAVA_TOOL_OPTIONS": trust.java_options} if trust.java_options else {},
        removed=PROXY_VARIABLES,  # with another proxy, the ingress would see only that
        launchers=launchers,
    )


def _wrapped(
    prefix: Sequence[str], words: Sequence[str], forwards: Sequence[int], started_fd: int | None
) -> list[str]:
    return [*prefix, ",".join(map(str, forwards)), "" if started_fd is None else str(started_fd), *words]


def _mounts(folder: Path, trust: Trust) -> list[tuple[str, str]]:
    """Return the pairs of a file and the file that it replaces."""
    resolver = folder / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n", encoding="ascii")
    for file in (resolver, trust.bundle):
        file.chmod(0o644)  # the subject may run as any user
    mounts = [(str(resolver), _RESOLVER)]
    mounts += [(os.devnull, service) for service in _NAME_SERVICES]
    mounts += [(str(trust.bundle), bundle) for bundle in SYSTEM_BUNDLES]
    if _OPENSSL.is_dir() and not (_OPENSSL / "cert.pem").exists():
        mounts.append((str(with_bundle(_OPENSSL, folder / "openssl", trust.bundle)), str(_OPENSSL)))
    by_file = {os.path.realpath(target): (source, target) for source, target in mounts}
    return [mount for mount in by_file.values() if Path(mount[1]).exists()]


def with_bundle(original: Path, changed: Path, bundle: Path) -> Path:
    """Copy OpenSSL's folder and add a bundle, since a mount needs an existing file."""
    copytree(original, changed, symlinks=True)
    copy(bundle, changed / "cert.pem")
    return changed


def _emptied(folder: Path, databases: Sequence[Path]) -> list[tuple[str, str]]:
    """Return mounts of an empty file over each database that exists."""
    empty = folder / "empty"
    empty.touch(0o444)
    return [(str(empty), str(file.resolve())) for file in databases if file.exists()]


def _private_view(folder: Path, ingress: Path) -> list[tuple[str, str]]:
    """Return the mounts that hide the user's private folder, if the tap's folder is in it.

    An MCP server's shim finds its lab there.
    """
    private = private_folder().resolve()
    if folder.resolve().parent != private:
        return []
    view = folder / "private"
    (view / folder.name).mkdir(parents=True)
    topology = ingress.with_suffix(".json")
    if topology.exists():
        copy(topology, view / topology.name)
    return [(str(folder), str(view / folder.name)), (str(view), str(private))]


def _try(prefix: Sequence[str]) -> None:
    try:
        trial = subprocess.run(
            _wrapped(prefix, (), (), None),
            capture_output=True,
            text=True,
            timeout=_TRIAL_BOUND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoNamespaceError(str(error)) from None
    if trial.returncode:
        lines = trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"]
        raise NoNamespaceError(lines[-1])


_ANY_RUNTIME = {"JAVA_HOME": "unknown"}  # the subject's image is not visible from here


def write_shared_files(folder: Path, authority: str) -> None:
    """Write the files that the variables in compose.subject.yaml name. Raises ``OSError``."""
    write_trust(folder, authority, _ANY_RUNTIME)
    copyfile(PRELOAD, folder / PRELOAD.name)
    copytree(FUNCTIONS, folder / FUNCTIONS.name, ignore=ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # the subject may run as any user in its container


def main(folder: str) -> int:
    """Write the files and return 0; after a problem, print it in one line and return 1."""
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
