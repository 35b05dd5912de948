"""A subject's exception as the result of its attempt, with what failed: agent, server or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wirefault.history.events import ErrorClass
from wirefault.subjects.subject import SubjectResult

# By the names that HTTP clients and SDKs give their exceptions, since a subject may use any of them.
_CLASSES: Mapping[str, ErrorClass] = {
    # built in; requests and aiohttp have some of the same names
    "ConnectionError": "network",
    "TimeoutError": "network",
    "IncompleteRead": "network",
    "gaierror": "network",
    "URLError": "network",
    # requests, urllib3, httpx and httpcore, aiohttp
    "Timeout": "network",
    "ChunkedEncodingError": "network",
    "ProtocolError": "network",
    "MaxRetryError": "network",
    "TransportError": "network",
    "TimeoutException": "network",
    "NetworkError": "network",
    "ClientConnectionError": "network",
    "ClientPayloadError": "network",
    # the SDKs of OpenAI, Groq and Anthropic
    "APIConnectionError": "network",
    "APIStatusError": "server",
    "APIError": "server",
    # urllib and requests, httpx, aiohttp
    "HTTPError": "server",
    "HTTPStatusError": "server",
    "ClientResponseError": "server",
}

# Where only the name is known, and not the ancestors: those that the SDKs raise.
_MORE_CLASSES: Mapping[str, ErrorClass] = {
    "APITimeoutError": "network",
    "ConnectError": "network",
    "ConnectTimeout": "network",
    "ReadTimeout": "network",
    "ReadError": "network",
    "RemoteProtocolError": "network",
    "RemoteDisconnected": "network",
    "ConnectionRefusedError": "network",
    "ConnectionResetError": "network",
    "InternalServerError": "server",
    "RateLimitError": "server",
    "ServerError": "server",
}


def crash_of(error: Exception) -> SubjectResult:
    """The result of an attempt that this exception ended."""
    name, text = type(error).__name__, str(error)
    return SubjectResult("exception", error_type=name, error=text, error_class=_class_of(error))


def error_class_in(message: str) -> ErrorClass:
    """What failed, by the exception's name that a message begins with: ``httpx.ReadTimeout: timed out``."""
    name = message.partition(":")[0].rpartition(".")[2].strip()
    return _CLASSES.get(name, _MORE_CLASSES.get(name, "agent"))


def _class_of(error: BaseException) -> ErrorClass:
    """What the exception, or one that it was raised from, says; where none does, the agent itself failed."""
    for cause in _raised_from(error):
        for ancestor in type(cause).__mro__:  # from the most specific one
            if ancestor.__name__ in _CLASSES:
                return _CLASSES[ancestor.__name__]
    return "agent"


def _raised_from(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
