"""What a tap does to a command and to its environment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wirefault.history.events import Level

# Every variable that leads a client to some proxy, in both spellings.
PROXY_VARIABLES = tuple(
    spelling
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "GRPC_PROXY")
    for spelling in (name, name.lower())
)


@dataclass(frozen=True)
class Tap:
    """How a subject's connections come to the front.

    ``kind`` is None where nothing is intercepted; ``reason`` says why it is not the kind that catches more.
    ``watched``: what goes past it is looked for. ``escapes`` says what does so where nobody looks, and
    ``not_kept`` what it does not keep of what was asked of it. ``wrap`` does what ``words`` says.
    ``variables`` replace those of the environment, ``removed`` are taken out, ``appended`` are put behind
    what is there, after a space.
    """

    kind: Literal["namespace", "proxy"] | None = None
    reason: str = ""
    watched: bool = False
    escapes: str = ""
    not_kept: str = ""
    wrap: Callable[[Sequence[str], Sequence[int], int | None], list[str]] = field(
        default=lambda words, _doors, _entered: list(words)
    )
    variables: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def words(
        self, command: Sequence[str], doors: Sequence[int] = (), entered: int | None = None
    ) -> list[str]:
        """The command that runs that one behind the tap.

        ``doors``: descriptors of bound sockets, inherited by it. Where the command listens at such a socket's
        address in a network of its own (``has_doors``), it is reached through the socket from outside.
        ``entered``: an inherited descriptor that gets a byte just before the command is run, where something
        else runs first (``must_be_entered``).
        """
        return self.wrap(command, doors, entered)

    @property
    def must_be_entered(self) -> bool:
        """Whether something of the lab runs before the command, and may fail in its place."""
        return self.kind == "namespace"

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command behind the tap."""
        kept = {name: value for name, value in environ.items() if name not in self.removed}
        appended = {name: f"{kept.get(name, '')} {more}".lstrip() for name, more in self.appended.items()}
        return {**kept, **self.variables, **appended}

    @property
    def has_doors(self) -> bool:
        """Whether a server that the command is can be reached by a door alone."""
        return self.kind == "namespace"

    @property
    def notes(self) -> list[tuple[Level, str]]:
        """What a user should hear of it."""
        if self.kind is None:
            return []
        why = f", since there is no namespace tap: {self.reason}" if self.reason else ""
        said: list[tuple[Level, str]] = [("warning" if why else "info", f"tap: {self.kind}{why}")]
        return said + [("warning", text) for text in (self.escapes, self.not_kept) if text]


NO_TAP = Tap()
