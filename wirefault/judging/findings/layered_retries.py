"""Retries of several layers that multiply: the SDK's, the framework's, the model's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from wirefault.history.events import ToolTry
from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.findings.sent import Sent
from wirefault.judging.findings.trace import EpisodeTrace


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    for group in trace.repeated:
        if any(sent.succeeded or sent.reply_lost is None for sent in group[:-1]):
            continue
        asked = _asked(trace, group)
        layers = [(who, count) for who, count in _counted(asked) if count > 1]
        if len(layers) > 1 and _multiplied(asked):
            up_to = "" if prod(count for _, count in layers) == len(group) else "up to "
            product = " x ".join(f"{up_to}{count} by {who}" for who, count in layers)
            failed = "until the last" if group[-1].succeeded else "each time"
            text = f"{group[0].name} was sent {len(group)} times and failed {failed}: {product}"
            yield Observation(text, tuple(id for sent in group for id in sent.ids))


def _asked(trace: EpisodeTrace, group: Sequence[Sent]) -> list[list[list[Sent]]]:
    """The requests as the model asked for them, in these as the framework did, in these the SDK's tries."""
    by_model = _split(group, lambda before, sent: _is_asked_anew(trace, before, sent))
    return [_split(tries, lambda _, sent: not _is_sdk_retry(sent)) for tries in by_model]


def _counted(asked: list[list[list[Sent]]]) -> Iterator[tuple[str, int]]:
    """Each layer from the outermost, and how often at most it asked the next."""
    yield "the model", len(asked)
    yield "the framework", max(map(len, asked))
    yield "the SDK", max(len(tries) for by_framework in asked for tries in by_framework)


def _multiplied(asked: list[list[list[Sent]]]) -> bool:
    """Whether an outer layer has made an inner one repeat itself at least twice."""
    repeated = [by_framework for by_framework in asked if sum(map(len, by_framework)) > 1]
    by_sdk = [tries for by_framework in asked for tries in by_framework if len(tries) > 1]
    return len(repeated) > 1 or len(by_sdk) > 1


def _split(group: Sequence[Sent], is_new: Callable[[Sent, Sent], bool]) -> list[list[Sent]]:
    """The group in pieces; ``is_new`` tells of a request and the one before it whether it begins a piece."""
    pieces: list[list[Sent]] = []
    for place, sent in enumerate(group):
        if not place or is_new(group[place - 1], sent):
            pieces.append([])
        pieces[-1].append(sent)
    return pieces


def _is_asked_anew(trace: EpisodeTrace, before: Sent, sent: Sent) -> bool:
    """Whether the model has asked for it once more: by the caller's count, or since it was asked itself."""
    if sent.of_model:
        return False
    if isinstance(before.tried, ToolTry) and isinstance(sent.tried, ToolTry):
        return before.tried.call != sent.tried.call
    return any(other.of_model and other.succeeded for other in trace.between(before, sent))


def _is_sdk_retry(sent: Sent) -> bool:
    return bool(sent.exchange and sent.exchange.sdk_retry)


LAYERED_RETRIES = Rule(
    name="layered_retries",
    severity="wasteful",
    title="retries multiplied by layers",
    fires=(
        "The same request failed and was sent again by at least two layers: by the SDK (it says so in a "
        "header), by the code around it (the same again without that), and by the model (it was asked in "
        "between, or the subject's own count of its calls says so)."
    ),
    silent=(
        "only one layer repeated it, or the inner one only once: a call that passed at the second asking",
        "one of the tries before the last had succeeded",
        "it is not known whether a reply reached the caller",
        "a model's requests differ, or the history does not hold their bodies",
    ),
    mistaken=("a model that was told to try again by the user or by the tool's own error",),
    observe=_observe,
)
