"""Name a run's subject and the model that answered it, by the replies on the wire. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wirefault.history.events import LAB_MODEL, SELF_TEST, Event, Exchange, ModelCall, RunStarted
from wirefault.wiring.links import SCRIPTED

_OWN = "langchain agent"
YOUR_AGENT = "Your agent"


def agent_of(started: RunStarted | None) -> str:
    """Name the agent under test at the start of a sentence."""
    is_own = started is not None and started.subject == _OWN and not started.subject_kind
    return "The lab's agent" if is_own else YOUR_AGENT


def subject_name(started: RunStarted, events: Iterable[Event]) -> str:
    """The subject's name and the model that answered it; ``SELF_TEST`` for the scripted model."""
    events = list(events)
    name = started.subject
    calls = [event for event in events if _asked_model(event)]
    answers = [answer for event in calls if (answer := _answer(event))]
    if any(isinstance(event, Exchange) for event in calls):  # the gateway saw what the caller recorded
        answers = [answer for event in calls if isinstance(event, Exchange) and (answer := _answer(event))]
    if answers:
        return ", ".join([name, *_models(started, answers)])
    if calls:
        return f"{name}, no model answered"
    if name == _OWN:
        return f"{name}, no model was called"
    has_model = any(link.is_model for link in started.wired)
    return f"{name}, no model was called through the lab" if has_model else name


def _asked_model(event: Event) -> bool:
    return isinstance(event, ModelCall) or (isinstance(event, Exchange) and event.of_model)


def _answer(event: Event) -> tuple[str, str] | None:
    """The link and name of the model that answered the request; None without an answer.

    The name is empty if the reply does not have one. The client may have received another reply.
    """
    if isinstance(event, ModelCall):
        return (LAB_MODEL, "") if event.status is not None and event.status < 300 else None
    if not isinstance(event, Exchange) or event.unavailable:
        return None
    return (event.link, event.model or "") if event.answered is not None and event.answered < 300 else None


def scripted_links(started: RunStarted) -> set[str]:
    """Return the names of the links on which the lab's scripted model answers."""
    scripted = {link.name for link in started.wired if link.upstream == SCRIPTED}
    if str(started.settings.get("model", "scripted")) != "scripted":  # replaces it on links that allow this
        scripted -= {link.name for link in started.wired if link.takes_model}
    return scripted


def _models(started: RunStarted, answers: Sequence[tuple[str, str]]) -> Iterator[str]:
    scripted, choice = scripted_links(started), str(started.settings.get("model", "scripted"))
    if any(link in scripted for link, _ in answers):
        persona = started.settings.get("persona") if not started.subject_kind else None
        yield f"{SELF_TEST} ({persona})" if persona else SELF_TEST
    names = {name for link, name in answers if link not in scripted}
    if names:
        named = [*sorted(names - {""}), *(["a model that did not name itself"] if "" in names else [])]
        server = f" ({choice})" if not started.subject_kind and choice != "scripted" else ""
        yield f"answered by {' and '.join(named)}{server}"
