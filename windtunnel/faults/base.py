"""What a fault at the gateway is: it looks at one request and may answer in the upstream's place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from windtunnel.settings import Settings


@dataclass(frozen=True)
class RequestView:
    """One request that the gateway has identified, its body read. ``call`` and ``try_`` count from 1."""

    link: str
    method: str
    target: str
    fingerprint: str
    episode: str
    attempt: int
    call: int
    try_: int


@dataclass(frozen=True)
class Reply:
    """What the client gets instead of the upstream's answer; ``record`` goes into the history."""

    status: int
    reason: str
    body: bytes
    record: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class Fault(ABC):
    """One kind of fault, registered in ``windtunnel.faults.FAULTS``. Pure: chance is a keyed draw."""

    name: ClassVar[str]

    @abstractmethod
    def applies(self, link: str, settings: Settings) -> bool:
        """Whether it can strike on that link at all; if so the gateway holds requests for ``act``."""

    @abstractmethod
    def act(self, request: RequestView, settings: Settings) -> Reply | None:
        """The reply to give in the upstream's place, or None to let the request pass."""
