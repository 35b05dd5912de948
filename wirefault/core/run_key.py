"""The key of a run, with which the lab's own agent signs the identity of its requests.

It is derived from a secret of the lab and from the run's id. Natively the secret is the lab's token: the
launcher derives the key and hands it over by a descriptor, to the lab's own agent only. In Compose the secret
is a file on a volume of the agent and the gateway, which do not share the token.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wirefault.core.control_access import secret_descriptor, shared_secret

KEY_DESCRIPTOR = "WIREFAULT_RUN_KEY_FD"
SECRET_FILE = "WIREFAULT_RUN_SECRET_FILE"
"""Set by Compose: the file with the secret that all keys derive from."""
_SIZE = 32


def derive_run_key(secret: str, run_id: str) -> bytes:
    """Return the key of that run, which does not reveal the secret."""
    return hmac.digest(secret.encode(), f"identity in run {run_id}".encode(), "sha256")


def run_secret(environ: Mapping[str, str], token: str) -> str:
    """Return the secret that all keys of the lab derive from. Raises ``OSError``."""
    file = environ.get(SECRET_FILE)
    return shared_secret(Path(file)) if file else token


@contextmanager
def handed_key(secret: str, run_id: str) -> Iterator[tuple[dict[str, str], list[int]]]:
    """Yield the variables and descriptors by which the lab's own agent inherits the run's key.

    Both are empty without a secret, as for any other agent. Raises ``OSError``.
    """
    if not secret:
        yield {}, []
        return
    descriptor = secret_descriptor("run_key", derive_run_key(secret, run_id))
    try:
        yield {KEY_DESCRIPTOR: str(descriptor)}, [descriptor]
    finally:
        os.close(descriptor)


class InheritedKeys:
    """Run keys that this process inherited. Only the lab's own agent inherits any."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the key from its descriptor, and keep children from inheriting it. Raises ``OSError``."""
        self._key, self._secret = b"", ""
        if environ.get(KEY_DESCRIPTOR):
            descriptor = int(environ[KEY_DESCRIPTOR])
            self._key = os.pread(descriptor, _SIZE, 0)
            os.set_inheritable(descriptor, False)
        elif environ.get(SECRET_FILE):
            self._secret = shared_secret(Path(environ[SECRET_FILE]))

    def run_key(self, run_id: str) -> bytes:
        """Return the run's key; empty if none was inherited."""
        return self._key or (derive_run_key(self._secret, run_id) if self._secret else b"")
