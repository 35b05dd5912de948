"""The system's hosts file: clients read it themselves, so only their addresses reach the ingress."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from wirefault.core.sockets import is_loopback, plain_host

HOSTS_FILE = Path("/etc/hosts")


class HostsFile:
    """The names in a hosts file, read again when it has changed. A missing file has no names."""

    def __init__(self, path: Path = HOSTS_FILE) -> None:
        self._path = path
        self._written = 0
        self._addresses: dict[str, list[str]] = {}

    def leads(self, name: str, address: str) -> bool:
        """Whether the file gives that name the address."""
        return address in self._read().get(name, ())

    def loopback_of(self, name: str) -> tuple[str, ...]:
        """Return the addresses of this machine that the file gives the name."""
        return tuple(filter(is_loopback, self._read().get(name, ())))

    def _read(self) -> dict[str, list[str]]:
        try:
            written = self._path.stat().st_mtime_ns
            if written != self._written:
                text = self._path.read_text(encoding="utf-8", errors="replace")
                self._addresses, self._written = _parsed(text), written
        except OSError:
            self._addresses, self._written = {}, 0
        return self._addresses


def _parsed(text: str) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and _is_address(words[0]):
            for name in words[1:]:
                addresses.setdefault(plain_host(name), []).append(plain_host(words[0]))
    return addresses


def _is_address(word: str) -> bool:
    try:
        ip_address(word.partition("%")[0])
    except ValueError:
        return False
    return True
