"""Hand-written histories: events with everything filled in that a test does not speak of."""

from wirefault.core.caller_errors import sorted_kinds
from wirefault.faults.registry import REGISTRY
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeStarted,
    Exchange,
    FaultMet,
    ModelCall,
    Report,
    RunFinished,
    RunStarted,
    ToolCalled,
    ToolTry,
    WorldRead,
)
from wirefault.judging.evidence.gather import gather
from wirefault.judging.judge import judge_trace
from wirefault.judging.trace import episode_trace
from wirefault.toxiproxy.planned import PlannedToxic

EPISODE = "001"
SETTINGS = {"model": "scripted", "tool_timeout": 1.0, "attempt_time": 30.0}
ASK_BOB = {"effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": "hi"}}]}


def run_started(prompts=1, skipped_prompts=0, **settings):
    known = SETTINGS | settings
    return RunStarted(100.0, "run-1", "lab", 0, 7, known, "langchain agent", prompts, skipped_prompts)


def run_finished(t=160.0, completed=True, reason="", toxics_left=0):
    return RunFinished(t, completed, reason, toxics_left)


def started(expect=None, episode=EPISODE, prompt="Message Bob"):
    return EpisodeStarted(101.0, episode, prompt, expect)


def armed(*toxics, attempt=1, arming_ms=4.0, episode=EPISODE, configuration=0):
    return AttemptArmed(102.0, episode, attempt, arming_ms, list(toxics), configuration)


def timeout(link="message", stream="downstream", ms=400):
    return PlannedToxic(link, "timeout", stream, {"timeout": ms})


def latency(link="message", stream="upstream", ms=300, jitter=0):
    return PlannedToxic(link, "latency", stream, {"latency": ms, "jitter": jitter})


def tried(link="message", error=None, ms=20.0, try_=1, status=None, start=103.0, **more):
    known = {"write": link == "message", "idempotency_key": "k1" if link == "message" else None}
    fields = {"episode": EPISODE, "attempt": 1, "tool": "send_message", "fingerprint": "f1", "call": 1}
    if status is None and error is None:
        status = 200
    return ToolTry(
        **fields | known | more | {"link": link, "try_": try_, "start": start, "ms": ms},
        end=start + ms / 1000,
        timeout_ms=1000.0,
        status=status,
        error=error,
        reply_bytes=0 if error else 50,
    )


def called(result="{}", ok=True, link="weather", **more):
    fields = {"episode": EPISODE, "attempt": 1, "reply": 1, "index": 0, "tool": "get", "fingerprint": "f1"}
    fields |= {"arguments": {}, "call": 1, "tries": 1, "error": None, "side_effect": "none"}
    return ToolCalled(t=104.0, ok=ok, link=link, result=result, fallback_used=False, **fields | more)


def fault_met(kind="unavailable", status=503, id="", digest="", **more):
    """A fault that answered a try, ERROR_PROB's by default."""
    shows = {"status": status, "digest": digest}
    evidence = {"kind": kind, "status": status}
    fields = {"id": id, "kind": kind, "injected": True, "shows": shows, "evidence": evidence}
    causes = sorted_kinds(REGISTRY[kind].can_cause) if kind in REGISTRY else []
    return FaultMet(**fields | {"causes": causes} | more)


def exchange(link="message", ms=2.0, status=200, fault=None, complete=(True, True), **more):
    fields = {"episode": EPISODE, "attempt": 1, "method": "GET", "target": "/"}
    fields |= {"fingerprint": "f1", "call": 1, "try_": 1, "identity": "baggage", "start": 103.0}
    fields |= {"request_complete": complete[0], "reply_complete": complete[1], "forwarded": not fault}
    fields |= {"request_bytes": 100, "reply_bytes": 50, "link": link, "ms": ms, "status": status}
    return Exchange(**fields | {"faults": [fault] if fault else []} | more)


def model_call(ordinal=1, try_=1, ms=10.0, status=200, error=None):
    return ModelCall(103.0, EPISODE, 1, ordinal, ms, status, try_=try_, error=error)


def ended(
    status="done",
    values=(),
    ended_by="report",
    attempt=1,
    response="",
    episode=EPISODE,
    ms=5000.0,
    answer="answer",
):
    report = Report(status, answer, list(values)) if ended_by == "report" else None
    return AttemptEnded(episode, attempt, 103.0, 108.0, ms, ended_by, response, report=report)


def healed(t=109.0, settled=True, invalid=None, attempt=1, episode=EPISODE):
    return AttemptHealed(t, episode, attempt, settled, invalid)


def message_sent(to="Bob", body="hi", at=103.01, key="k1"):
    fields = {"to": to, "body": body}
    return {
        "id": 1,
        "service": "message_tool",
        "kind": "message_sent",
        "fields": fields,
        "idempotency_key": key,
        "at": at,
    }


def created(title="Lunch", date="2026-03-12", time="12:00", at=103.01, key=None):
    row = {"id": 1, "service": "calendar_tool", "kind": "event_created", "idempotency_key": key, "at": at}
    return row | {"fields": {"title": title, "date": date, "time": time}}


def deleted(*events, date="2026-03-12", at=103.01, key=None):
    """``events``: title and time of each that was there."""
    row = {"id": 1, "service": "calendar_tool", "kind": "events_deleted", "idempotency_key": key, "at": at}
    titles, times = [title for title, _ in events], [time for _, time in events]
    return row | {"fields": {"date": date, "count": len(events), "titles": titles, "times": times}}


def world(*effects, error=None, episode=EPISODE):
    return WorldRead(110.0, episode, list(effects), error)


def episode(*events, expect=None, name=EPISODE):
    """A whole episode around the events: one attempt, armed, done, healed, no side effects."""
    types = {type(event) for event in events}
    defaults = [armed(episode=name), ended(episode=name), healed(episode=name), world(episode=name)]
    return [started(expect, name), *events, *(one for one in defaults if type(one) not in types)]


def evidence_of(events):
    return gather(episode_trace(events))


def judge_episode(events, finished=True):
    """Judge an episode by all events of its run."""
    return judge_trace(episode_trace(events), finished)
