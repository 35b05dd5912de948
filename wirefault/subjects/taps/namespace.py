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

from wirefault.subjects.taps.tap import PROXY_VARIABLES, SYSTEM_BUNDLES, Tap, Trust

_ENTER = str(Path(__file__).with_name("enter.py"))
_HELPER = str(Path(__file__).with_name("helper.py"))
_TRIAL_BOUND_S = 20.0
# often not on the path of a user who may run what is there
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Answered by processes outside, which know other addresses than the ingress gives: without them a client asks
# the server that resolv.conf names.
_NAME_SERVICES = ("/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket", "/var/run/nscd/socket")
_RESOLVER = "/etc/resolv.conf"
# where Debian's OpenSSL looks for a bundle, which is not there as Debian comes
_OPENSSL = Path("/usr/lib/ssl")


class NoNamespaceError(Exception):
    """Why this system lets nobody make the tap, in words."""


def namespace_tap(folder: Path, ingress: Path, trust: Trust, environ: Mapping[str, str]) -> Tap:
    """A tap whose files are in that folder, for the ingress that listens at that path.

    Makes it once as a trial. Raises ``NoNamespaceError``.
    """
    if sys.platform != "linux":
        raise NoNamespaceError("only Linux has network namespaces")
    search = os.pathsep.join([environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    tools = {name: which(name, path=search) for name in ("unshare", "ip", "nft")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        raise NoNamespaceError(f"this system has no program {' and no program '.join(missing)}")
    unshare, is_root = str(tools["unshare"]), os.geteuid() == 0
    own_user = [unshare, "-U", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}", "--"]
    setup = {
        "ip": tools["ip"],
        "nft": tools["nft"],
        "ingress": str(ingress),
        "helper": _HELPER,
        "mounts": _mounts(folder, trust),
        "bundle": str(trust.bundle),
        "restore": [] if is_root else own_user,  # who it is to become again, after it was root in there
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
        removed=PROXY_VARIABLES,  # another proxy would be all that the ingress gets to see
    )


def _wrapped(
    prefix: Sequence[str], words: Sequence[str], doors: Sequence[int], entered: int | None
) -> list[str]:
    return [*prefix, ",".join(map(str, doors)), "" if entered is None else str(entered), *words]


def _mounts(folder: Path, trust: Trust) -> list[tuple[str, str]]:
    """What lies in whose place."""
    resolver = folder / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\n", encoding="ascii")
    for file in (resolver, trust.bundle):
        file.chmod(0o644)  # whoever the subject becomes may read the system's own
    mounts = [(str(resolver), _RESOLVER)]
    mounts += [(os.devnull, service) for service in _NAME_SERVICES]
    mounts += [(str(trust.bundle), bundle) for bundle in SYSTEM_BUNDLES]
    if _OPENSSL.is_dir() and not (_OPENSSL / "cert.pem").exists():
        mounts.append((str(with_bundle(_OPENSSL, folder / "openssl", trust.bundle)), str(_OPENSSL)))
    by_file = {os.path.realpath(target): (source, target) for source, target in mounts}
    return [mount for mount in by_file.values() if Path(mount[1]).exists()]


def with_bundle(original: Path, changed: Path, bundle: Path) -> Path:
    """A copy of OpenSSL's folder that has a bundle besides: nothing can be mounted where there is no file."""
    copytree(original, changed, symlinks=True)
    copy(bundle, changed / "cert.pem")
    return changed


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
