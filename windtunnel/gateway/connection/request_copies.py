"""A request that the upstream gets several times, of which the client has the last reply. Pure."""

from __future__ import annotations

from windtunnel.faults.plan import MetFault
from windtunnel.gateway.http1.heads import RequestHead
from windtunnel.gateway.http1.reply_reader import ReplyReader


class RequestCopies:
    """``message`` is the whole request; ``left`` copies are still to be sent after the one under way.

    ``reader`` follows the reply to the copy under way, which the client does not get; with none ``left``
    that reply is not read here.
    """

    def __init__(self, fault: MetFault, head: RequestHead, message: bytes) -> None:
        self.message = message
        self.head = head
        self.left = fault.act.copies - 1
        self._fault = fault
        self._statuses: list[int] = []
        self.reader = self._new_reader()

    def _new_reader(self) -> ReplyReader:
        return ReplyReader(self.head.method, self.head.upgrade, True)

    def note_reply(self, reader: ReplyReader) -> None:
        """Puts the status of a copy's reply into the fault's evidence."""
        if reader.head is not None:
            self._statuses.append(reader.head.status)

    def next_copy(self) -> None:
        """The reply to the copy under way is over: the next copy is to be sent."""
        self.note_reply(self.reader)
        self.left -= 1
        self._fault.mark_injected({"statuses": self._statuses})
        if self.left:
            self.reader = self._new_reader()
