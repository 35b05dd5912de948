"""The delay that faults add before a request goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from windtunnel.gateway.connection.request_in_progress import RequestInProgress


class FaultDelay:
    """Delays one request from now on; then calls ``go_on``. What was really added goes into its plan."""

    def __init__(
        self, request: RequestInProgress, seconds: float, go_on: Callable[[RequestInProgress], None]
    ) -> None:
        self._request = request
        self._go_on = go_on
        self._since = time.perf_counter()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.expire)

    def expire(self) -> None:
        """The delay is over: the request goes on."""
        self.stop()
        self._go_on(self._request)

    def stop(self) -> None:
        """Ends the delay; the request does not go on."""
        self._timer.cancel()
        if self._request.plan is not None:
            self._request.plan.mark_delayed(time.perf_counter() - self._since)
