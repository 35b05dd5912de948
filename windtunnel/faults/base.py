"""What a fault at the gateway is: it looks at one request and may answer in the upstream's place."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from windtunnel.settings import Settings


class RequestView(NamedTuple):
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
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)


def error_body(code: str, message: str) -> bytes:
    """The lab's one JSON shape of an error."""
    return json.dumps({"error": {"code": code, "message": message}}).encode()


class Fault(ABC):
    """One kind of fault, registered in ``windtunnel.faults.FAULTS``. Pure: chance is a keyed draw."""

    name: ClassVar[str]

    @abstractmethod
    def applies(self, link: str, settings: Settings) -> bool:
        """Whether it can strike on that link at all; if so the gateway holds requests for ``act``."""

    @abstractmethod
    def act(self, request: RequestView, settings: Settings) -> Reply | None:
        """The reply to give in the upstream's place, or None to let the request pass."""
