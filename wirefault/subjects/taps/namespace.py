"""The namespace tap: the subject runs in its own network namespace; all connections go to the ingress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from shutil import copy, copytree, which

from wirefault.core.files import private_folder
from wirefault.subjects.taps.tap import PROXY_VARIABLES, SYSTEM_BUNDLES, Tap, Trust

_ENTER = str(Path(__file__).with_name("enter.py"))
_HELPER = str(Path(__file__).with_name("helper.py"))
_TRIAL_BOUND_S = 20.0
# often not on a user's PATH
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Served by processes outside, which return other addresses than the ingress: without them a client asks the
# server in resolv.conf.
_NAME_SERVICES = ("/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket", "/var/run/nscd/socket")
_RESOLVER = "/etc/resolv.conf"
# capabilities by which root inside could join the network outside, or read the lab's processes
# CAP_SYS_MODULE, _SYS_RAWIO, _SYS_PTRACE, _SYS_ADMIN, _PERFMON, _BPF, _CHECKPOINT_RESTORE
_DROPPED = (16, 17, 19, 21, 38, 39, 40)
# where Debian's OpenSSL looks for a bundle that Debian does not install
_OPENSSL = Path("/usr/lib/ssl")


class NoNamespaceError(Exception):
    """Why the tap cannot be made on this system, in words."""


def namespace_tap(
    folder: Path, ingress: Path, trust: Trust, environ: Mapping[str, str], databases: Sequence[Path] = ()
) -> Tap:
    """Return a tap with its files in that folder, for the ingress that listens at that path.

    Inside it the ``databases`` are empty, and the user's private folder has only the files of this lab and
    this tap. Makes the tap once as a trial. Raises ``NoNamespaceError``.
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
    setup = {
        "ip": tools["ip"],
        "nft": tools["nft"],
        "ingress": str(ingress),
        "helper": _HELPER,
        "mounts": [*_mounts(folder, trust), *_emptied(folder, databases)],
        "private": _private_view(folder, ingress),
        "drop": list(_DROPPED) if is_root else [],  # others have no rights outside their own namespace
        "bundle": str(trust.bundle),
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
    )


def _wrapped(
    prefix: Sequence[str], words: Sequence[str], forwards: Sequence[int], started_fd: int | None
) -> list[str]:
    return [*prefix, ",".join(map(str, forwards)), "" if started_fd is None else str(started_fd), *words]


def _mounts(folder: Path, trust: Trust) -> list[tuple[str, str]]:
    """Return which file replaces which."""
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
