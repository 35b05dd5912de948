"""What a tap does to a command and to its environment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

NO_DOOR = -1

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
    ``remarks``: what a user should hear of it, a sentence each. ``wrap`` makes of a command the one that is
    started; its number is the descriptor of a bound socket by which the command's own server shall be reached
    from outside, or ``NO_DOOR``. ``variables`` replace those of the environment, ``removed`` are taken out,
    ``appended`` are put behind what is there, after a space.
    """

    kind: Literal["namespace", "proxy"] | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    wrap: Callable[[Sequence[str], int], list[str]] = field(default=lambda words, _door: list(words))
    variables: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def words(self, command: Sequence[str], door: int = NO_DOOR) -> list[str]:
        """The command that runs that one behind the tap."""
        return self.wrap(command, door)

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of a command behind the tap."""
        kept = {name: value for name, value in environ.items() if name not in self.removed}
        appended = {name: f"{kept.get(name, '')} {more}".lstrip() for name, more in self.appended.items()}
        return {**kept, **self.variables, **appended}

    @property
    def has_doors(self) -> bool:
        """Whether the command's own server is reached by a door alone."""
        return self.kind == "namespace"


NO_TAP = Tap()
