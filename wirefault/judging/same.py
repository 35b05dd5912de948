"""Which requests are for the same thing, and which of them are tries of one logical call. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from wirefault.dialects.sameness import Wanted, same_digest
from wirefault.history.events import Exchange, ToolTry
from wirefault.judging.requests import Request
from wirefault.wiring.links import Link


class SameRequests:
    """The ids that an episode's subject received, and the requests that were the same so far."""

    def __init__(self, exchanges: Iterable[Exchange], prompts: Iterable[str]) -> None:
        self._prompts = "\n".join(prompts)
        self._replies = [
            (e.start + e.ms / 1000, e.reply_body, _has_whole_reply(e)) for e in exchanges if not e.of_model
        ]
        self._by_fingerprint: dict[tuple[int, str, str], str] = {}

    def texts(self, requests: Sequence[Request]) -> Iterator[str]:
        """Yield the text of each request of an episode.

        A model's request is read only if another one has as many quotation marks and braces: masking all
        messages of a growing conversation again and again takes long, and what is masked has neither.
        """
        shapes = [_shape(request) for request in requests]
        alike = Counter(shapes)
        for request, shape in zip(requests, shapes, strict=True):
            yield request.ids[0] if shape and alike[shape] == 1 else self.text(request)

    def text(self, request: Request) -> str:
        """A text that is equal for the same requests, whatever their generated ids and idempotency keys."""
        exchange = request.exchange
        if request.of_model and not (exchange and exchange.request_body):
            return str(request.same or request.ids[0])  # as the subject or the gateway numbered it, if known
        if exchange is not None:
            return self._same(exchange, request.link)
        return self._same_fingerprint(request) or request.ids[0]

    def _same(self, exchange: Exchange, link: Link | None) -> str:
        key = exchange.attempt, f"{exchange.link} {exchange.operation}".rstrip(), exchange.fingerprint
        known = self._by_fingerprint.get(key) if exchange.fingerprint else None
        if known is not None:
            return known
        whole = exchange.request_body is not None and not exchange.request_cut and exchange.request_complete
        wanted = Wanted(
            _server(exchange.link, link),
            f"{exchange.method} {exchange.operation}".rstrip(),
            exchange.target,
            exchange.tool,
            exchange.request_body if whole else None,
            exchange.start,
            link.key if link else "",
            all_received=all(whole for end, _, whole in self._replies if end <= exchange.start),
        )
        bodies = [body for end, body, _ in self._replies if body and end <= exchange.start]

        def is_known(id: str) -> bool:
            return id in self._prompts or any(id in body for body in bodies)

        same = same_digest(wanted, exchange.fingerprint or str(exchange.start), is_known)
        self._by_fingerprint[key] = same
        return same

    def _same_fingerprint(self, request: Request) -> str:
        """For a request that the gateway did not see; empty without a fingerprint."""
        record = request.caller_record
        if not isinstance(record, ToolTry) or not record.fingerprint:
            return ""
        key = request.attempt, record.link, record.fingerprint
        wanted = Wanted(record.link, request.method, "", "", None, request.start)
        return self._by_fingerprint.setdefault(key, same_digest(wanted, record.fingerprint, "".__contains__))


def _shape(request: Request) -> tuple[int, str, int, int] | None:
    """Equal for model requests that may be the same; None for others, and without a body."""
    body = request.exchange.request_body if request.exchange else None
    if not request.of_model or not body:
        return None
    return request.attempt, request.link_name, body.count('"'), body.count("{")


def _has_whole_reply(exchange: Exchange) -> bool:
    """Whether the history has all of the reply that the client received."""
    if exchange.reply_body is None:
        return exchange.status in (None, 204, 304)
    return not (exchange.reply_cut and exchange.reply_complete)


def _server(name: str, link: Link | None) -> str:
    """Two links may lead to one server, except the lab's, those on standard input, and functions."""
    if link is None or link.is_of_lab or link.is_stdio or link.is_in_process:
        return name
    return link.upstream or name


def calls_in(rows: Iterable[Sequence[Request]]) -> Iterator[Sequence[Request]]:
    """Yield the tries of each logical call, which ends with the first try that did not fail.

    ``rows``: the requests for the same, of which each may repeat the one before.
    """
    for row in rows:
        call: list[Request] = []
        for request in row:
            call.append(request)
            if not request.failed:
                yield call
                call = []
        if call:
            yield call
