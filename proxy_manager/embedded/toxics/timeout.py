"""timeout: drops all data; closes after a time without any (0: never). Its removal closes too."""

from __future__ import annotations

from collections.abc import Mapping

from proxy_manager.embedded.toxics.base import Chunk, Context, Output, Stage, Timer, milliseconds


class Timeout(Stage):
    kind = "timeout"
    fields = ("timeout",)

    def __init__(self, attributes: Mapping[str, int], context: Context, output: Output) -> None:
        super().__init__(attributes, context, output)
        self._timer: Timer | None = None

    def start(self) -> None:
        self._cancel()
        timeout = self.attributes["timeout"]
        if timeout > 0 and not self.closed:
            self._timer = self.context.call_at(self.context.now() + milliseconds(timeout), self.close)

    def feed(self, chunk: Chunk) -> None:
        self.start()  # the real server's timer starts anew with each chunk that it drops

    def remove(self) -> bool:
        self.close()
        return False

    def kill(self) -> None:
        super().kill()
        self._cancel()

    def close(self) -> None:
        self._cancel()
        super().close()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
