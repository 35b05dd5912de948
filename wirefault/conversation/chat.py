"""One message of a session: which mode it meets, the turn, and what is stored of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from wirefault.conversation.modes import Odds, Situation, mode_named, modes
from wirefault.conversation.store import Session, Store
from wirefault.conversation.turns import ConversationRun, TurnResult
from wirefault.core.api_server import ApiError
from wirefault.core.errors import InputError
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError, build_set
from wirefault.recovery.strategies import parse_recovery
from wirefault.wiring.links import lab_links

log = logging.getLogger("wirefault.conversation")
MESSAGES_A_MINUTE = 600
_SESSION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"


class ChatRequest(BaseModel):
    """A message of a session."""

    model_config = ConfigDict(extra="forbid")

    session_id: str = Field(pattern=_SESSION, description="letters, digits, _ and -")
    message: str = Field(min_length=1, max_length=20_000)
    context: dict[str, Any] = Field(default_factory=dict, description="kept with the session")
    failure_mode: str | None = Field(None, description="force this mode or scenario; none: force no failure")
    recovery: str | None = Field(None, description="RECOVERY for this message; default: the server's")
    max_tokens: int | None = Field(None, ge=1, le=100_000)
    model: str | None = Field(None, max_length=120, description="the model's name; default: the server's")


class ScenarioConfig(BaseModel):
    """When and how a scenario fails a message."""

    model_config = ConfigDict(extra="forbid")

    probability: float = Field(ge=0, le=1)
    links: str | list[str] = "model"
    parameters: dict[str, Any] = Field(default_factory=dict, description="of the fault, as `with`")


class ScenarioRequest(BaseModel):
    """A failure scenario, in force from the next message on."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=_SESSION)
    description: str = ""
    failure_type: str = Field(description="a mode, or a fault of the catalogue")
    config: ScenarioConfig
    enabled: bool = True


class Memories(Protocol):
    """The conversations' stored steps, such as ``agent.checkpoints.SessionCheckpoints``."""

    resumed: dict[str, int]

    def last(self, run: str, episode: str) -> str: ...
    def forget(self, run: str, episode: str) -> None: ...


@dataclass
class Chat:
    """``forced``: FAILURE_MODE; ``probabilistic``: whether messages without a forced mode may fail."""

    store: Store
    clock: Callable[[], float]
    odds: Odds = field(default_factory=Odds)
    forced: str = ""
    probabilistic: bool = False

    def answer(self, run: ConversationRun, memories: Memories, request: ChatRequest) -> dict[str, Any]:
        """Answer the message; return the reply of the API."""
        session = self.store.session(request.session_id)
        if session is None:
            session = self._new(run, memories, request.session_id)
        if resumed := session.context.pop("resumed_turn", None):
            self.store.put_session(session)
            if resumed["message"] == request.message:
                return dict(resumed["reply"])
        session.context.update(request.context)
        session.turns += 1
        mode, probability = self._mode(run, session, request)
        recovery = run.settings.recovery if request.recovery is None else request.recovery
        return self._turn(
            *(run, memories, session, request.model_dump(exclude_none=True)),
            {"mode": mode, "probability": probability, "recovery": recovery, "began": 0},
        )

    def resume(self, run: ConversationRun, memories: Memories, session: Session) -> None:
        """Answer the message that another server had begun to answer; the next request gets the reply."""
        begun = session.in_progress or {}
        memories.resumed[session.episode] = begun["how"]["began"]
        reply = self._turn(run, memories, session, begun["request"], begun["how"])
        reply["metadata"]["resumed"] = True
        session.context["resumed_turn"] = {"message": begun["request"]["message"], "reply": reply}
        self.store.put_session(session)

    def reset(self, run: ConversationRun, memories: Memories, session_id: str) -> None:
        """Forget the conversation; the session's next message begins another, in a new world."""
        session = self.store.session(session_id)
        if session is not None:
            memories.forget(run.run_id, session.episode)
            self._new(run, memories, session_id, session.generation + 1)

    def _new(self, run: ConversationRun, memories: Memories, session_id: str, least: int = 0) -> Session:
        generation = max(least, self.store.next_generation(session_id))
        session = Session(session_id, generation)
        run.begin_session(session.episode)
        self.store.put_session(session)
        return session

    def _turn(
        self,
        run: ConversationRun,
        memories: Memories,
        session: Session,
        request: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> dict[str, Any]:
        mode, context_length = how["mode"], len(session.conversation_history)
        faults = self.faults_of(mode)
        session.attempts += 1
        session.in_progress = {"request": request, "how": {**how, "began": how["began"] or session.attempts}}
        self.store.checkpoint(session, "pre_request", memories.last(run.run_id, session.episode))
        self.store.put_session(session)
        result = run.turn(
            session.episode,
            session.attempts,
            request["message"],
            faults,
            how["recovery"],
            request.get("model") or "",
            request.get("max_tokens") or 0,
        )
        self._count(run, memories, session, mode, result)
        log.log(
            logging.INFO if result.status == "success" else logging.WARNING,
            "session %s, turn %d: %s in %.0f ms, mode %s%s",
            *(session.session_id, session.turns, result.status, result.ms, mode or "none"),
            f", {result.error}" if result.error else "",
        )
        if result.status in ("success", "failure"):
            session.conversation_history += [
                {"role": "user", "content": request["message"]},
                {"role": "assistant", "content": result.response},
            ]
        session.in_progress = None
        reply = self._reply(session, mode, how["probability"], result, context_length)
        reply["interaction_id"] = self.store.add_interaction(
            session, run.run_id, request, reply, mode, result
        )
        self.store.put_session(session)
        return reply

    def _count(
        self, run: ConversationRun, memories: Memories, session: Session, mode: str, result: TurnResult
    ) -> None:
        last = memories.last(run.run_id, session.episode)
        if result.applied:
            session.last_mode, session.failed_at = mode, self.clock()
            self.store.checkpoint(session, "pre_failure", last)
        if result.status != "success":
            session.failure_count += 1
        if result.recovered:
            session.recovery_count += 1
            self.store.checkpoint(session, "post_recovery", last)

    def _reply(
        self, session: Session, mode: str, probability: float | None, result: TurnResult, length: int
    ) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "conversation_length": len(session.conversation_history),
            "context_preserved": length > 0,
            "turn": session.turns,
            "attempt": result.attempt,
            "recovered": result.recovered,
            "recoveries": [
                {"strategy": each.strategy, "success": each.success, "seconds": each.seconds}
                for each in result.recoveries
            ],
            "time_line": list(result.time_line),
        }
        if mode:
            metadata |= {"injected_failure": mode, "failure_probability": probability}
        if result.error:
            metadata["error"] = result.error
        return {
            "session_id": session.session_id,
            "response": result.response,
            "status": result.status,
            "natural_status": result.natural_status,
            "failure_mode": mode or None,
            "failure_injection_applied": result.applied,
            "natural_response": result.natural,
            "processing_time_ms": result.ms,
            "token_count": result.tokens,
            "model_used": result.model,
            "metadata": metadata,
        }

    # modes

    def _mode(self, run: ConversationRun, session: Session, request: ChatRequest) -> tuple[str, float | None]:
        """Return the message's mode, and the chance with which it was drawn; None if it was forced."""
        forced = self.forced if request.failure_mode is None else request.failure_mode
        if forced:
            return ("" if forced == "none" else forced), None
        since = None if session.failed_at is None else self.clock() - session.failed_at
        situation = Situation(session.turns, session.last_mode, since)
        odds = self.odds_now()
        mode = odds.draw(run.settings.seed, session.episode, session.turns, situation)
        return mode, odds.rates(situation).get(mode)

    def odds_now(self) -> Odds:
        """Return the odds with the enabled scenarios."""
        stated = {name: mode.probability for name, mode in modes().items()} if self.probabilistic else {}
        enabled = {
            each["name"]: each["config"]["probability"] for each in self.store.scenarios() if each["enabled"]
        }
        return replace(self.odds, stated={**stated, **enabled})

    def faults_of(self, mode: str) -> FaultSet:
        """Return the faults of a mode or scenario; none for an empty name. Raises ``InputError``."""
        if not mode:
            return FaultSet()
        scenario = next((each for each in self.store.scenarios() if each["name"] == mode), None)
        return mode_named(mode).faults if scenario is None else scenario_faults(scenario)

    def check(self, request: ChatRequest) -> None:
        """Raise ``ApiError`` for an unknown mode or strategy, and for too many messages."""
        try:
            self.faults_of("" if request.failure_mode in (None, "none") else str(request.failure_mode))
            parse_recovery(request.recovery or "")
        except (InputError, ValueError) as error:
            raise ApiError(422, "invalid", str(error)) from None
        if self.store.count_message(request.session_id) > MESSAGES_A_MINUTE:
            raise ApiError(429, "rate_limited", f"a session may send {MESSAGES_A_MINUTE} messages a minute")


def scenario_faults(scenario: Mapping[str, Any]) -> FaultSet:
    """Return the faults of a scenario. Raises ``InputError`` for an unknown type or parameter."""
    kind, config = scenario["failure_type"], scenario["config"]
    known = modes()
    entry: dict[str, Any] = {"fault": kind, "links": config.get("links", "model")}
    if kind in known:
        entry["fault"] = known[kind].faults.faults[0].fault.name
    if config.get("parameters"):
        entry["with"] = config["parameters"]
    data = {"faults": [{**entry, "id": scenario["name"]}]}
    try:
        return build_set(data, f"scenario {scenario['name']}", REGISTRY, lab_links())
    except FaultSetError as error:
        raise InputError(str(error)) from None
