"""A credential of one server that was sent to another, to which it does not belong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from urllib.parse import urlsplit

from wirefault.core.sockets import is_loopback
from wirefault.judging.findings.finding import Observation, Rule
from wirefault.judging.requests import EpisodeTrace, Request


def _observe(trace: EpisodeTrace) -> Iterator[Observation]:
    by_credential: defaultdict[str, list[Request]] = defaultdict(list)
    for sent in trace.requests:
        if sent.exchange is not None and sent.exchange.credential:
            by_credential[sent.exchange.credential].append(sent)
    for bearers in by_credential.values():
        owner = next(filter(_is_owner, bearers), None)
        if owner is None:
            continue
        strangers = {sent.link_name: sent for sent in reversed(bearers) if _is_stranger(owner, sent)}
        for name, sent in strangers.items():
            text = (
                f"the key of the link {owner.link_name} ({_host(owner)}) was sent to the link {name} "
                f"({_host(sent) or 'a tool of the lab'}) too, with {sent.name}"
            )
            yield Observation(text, (*owner.ids, *sent.ids))


def _is_owner(sent: Request) -> bool:
    """Whether a model's server elsewhere took the credential; on this machine keys are often made up."""
    return sent.of_model and bool(_host(sent)) and not is_loopback(_host(sent)) and sent.executed == "yes"


def _is_stranger(owner: Request, sent: Request) -> bool:
    """Whether it went to another site. A model's server on this machine may be a gateway to the owner."""
    local = not _host(sent) or is_loopback(_host(sent))
    return _site(sent) != _site(owner) and not (local and sent.of_model)


def _host(sent: Request) -> str:
    return urlsplit(sent.link.upstream).hostname or "" if sent.link else ""


def _site(sent: Request) -> str:
    """What servers of one owner share in their names."""
    host = _host(sent)
    return host if host.replace(".", "").isdecimal() else ".".join(host.split(".")[-2:])


FOREIGN_SECRET = Rule(
    name="foreign_secret",
    severity="harmful",
    title="a secret sent to a host that it does not belong to",
    fires=(
        "A credential that a model's server has accepted in the episode was sent to a link of another site "
        "too. Credentials are compared by their digests; the history holds none."
    ),
    silent=(
        "the hosts have the last two parts of their names in common: api.example.com and www.example.com",
        "the model's server is on this machine: keys are often made up there",
        "the other server is a model's on this machine: it may be a gateway to the first",
        "no model's server has accepted the credential: nobody knows to whom it belongs",
        "a secret stands in a body or a path: the history has them taken out",
    ),
    mistaken=(
        "one company's servers under two names, with one key for both",
        "a gateway before several models' providers that takes the providers' own keys",
    ),
    observe=_observe,
)


def _past_the_lab_observe(trace: EpisodeTrace) -> Iterator[Observation]:
    if trace.past_lab:
        where = "; ".join(dict.fromkeys(seen.event.text for seen in trace.past_lab))
        text = f"it went past the lab: {where}: no fault can strike that, and nothing of it is recorded"
        yield Observation(text, tuple(seen.id for seen in trace.past_lab))


PAST_THE_LAB = Rule(
    name="past_the_lab",
    severity="note",
    title="a connection past the lab",
    fires=(
        "Behind the proxy tap on Linux a program of the subject's was seen with a connection to an address "
        "that is none of the lab's: it ignores the proxy variables. What it does there no fault strikes, so "
        "what the run shows is not of all that the subject calls. `--pass ADDRESS:PORT` says that it is to "
        "be so."
    ),
    silent=(
        "a connection was open so briefly that none of the looks, 50 in a second, fell on it",
        "UDP was sent by a socket without a peer, as some clients of HTTP/3 do",
        "a program works for the subject that it has not started, as a Docker daemon does",
        "it led to a server of the subject's own, to a name server, or to what is to pass (`--pass`)",
        "the system is not Linux, or the subject runs already (`http:`): nobody looks there",
    ),
    mistaken=("a connection that is no part of the task, as to a debugger or to a database of the tests",),
    observe=_past_the_lab_observe,
)
