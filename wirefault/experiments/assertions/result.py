"""What an assertion says of an episode, and how it says that it cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

from wirefault.history.logs import strip_control

_LONGEST_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class AssertionResult:
    """``passed`` is None where it cannot be told, and ``message`` says why then.

    ``applies`` is False where there was nothing to judge, such as the spacing of retries where nothing was
    sent again. ``measured`` and ``expected`` are in words; ``evidence`` has ids of events, as
    ``RUN/gateway-0:17``.
    """

    passed: bool | None
    name: str = ""
    measured: str = ""
    expected: str = ""
    message: str = ""
    evidence: tuple[str, ...] = ()
    applies: bool = True


class NotRecorded(Exception):
    """The history does not have what is asked of it; the message says what, and why where that is known."""


class NothingToJudge(Exception):
    """What the assertion speaks of did not come up in the episode; the message says what."""


def shown_text(text: str) -> str:
    """What a subject said, cut and fit for a terminal."""
    clean = strip_control(text)
    return clean if len(clean) <= _LONGEST_SHOWN else f"{clean[:_LONGEST_SHOWN]}..."
