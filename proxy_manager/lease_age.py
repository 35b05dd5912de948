"""How old a run's sign of life is, by the time in which the manager itself got to work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

# the manager steps at least every 0.25 s: what a step took beyond twice that, it was kept from working
_LONGEST_STEP_S = 0.5
_REMEMBERED = 256  # delays: far more than there can be while a lease grows old


class LeaseAge:
    """Takes the manager's own delays out of the age of a heartbeat.

    A computer that slept, a locked database or other programs that took all processors held up the runs too:
    who could not work could give no sign of life. ``clock`` gives seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = self._last_step = clock()
        self._delays: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)

    def note_step(self) -> None:
        """To be called in each step of the manager."""
        now = self._clock()
        if abs(now - self._last_step) > _LONGEST_STEP_S:
            self._delays.append((now, now - self._last_step - _LONGEST_STEP_S / 2))
        self._last_step = now

    def of(self, heartbeat: float) -> float:
        """Seconds since the heartbeat, or since this manager began; its own delays do not count."""
        since = max(heartbeat, self._since)
        return self._clock() - since - sum(delay for ended, delay in self._delays if ended > since)
