"""``http:``, an agent that runs already, here or elsewhere, and is asked over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException

from wirefault.settings.settings import SettingsError
from wirefault.subjects.agent_request import AgentRequest, NoAnswerError, TooSlowError, is_open
from wirefault.subjects.conversation import AttemptOver, conversation_id, converse
from wirefault.subjects.subject import AttemptContext, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import Surroundings
from wirefault.wiring.subject_spec import HttpSpec, RequestSpec, holds_conversations

_LOOK_INTERVAL_S = 0.1


def running_agent(
    spec: HttpSpec,
    surroundings: Surroundings,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> HttpAgent:
    """The agent, which may still be starting. Raises ``SettingsError`` if it takes longer than it may."""
    end = clock() + spec.ready_within
    while spec.ready_within and not is_open(spec.http):
        if clock() > end:
            bound = f"nothing listens there within {spec.ready_within:g} s (ready_within)"
            raise SettingsError(f"{surroundings.where}: subject.http: {bound}")
        sleep(_LOOK_INTERVAL_S)
    return HttpAgent(spec, spec.http, surroundings)


class HttpAgent:
    """Sends each prompt by the request of its wiring. Raises ``SettingsError`` if that cannot be made."""

    kind = "http"

    def __init__(self, spec: RequestSpec, url: str, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._request = AgentRequest(spec, url, surroundings.environ, surroundings.where)
        self.holds_conversations = holds_conversations(spec)
        self.name = f"http: {url.partition('?')[0]}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        conversation, headers = conversation_id(context), context.identity.headers("")

        def turn(text: str, _number: int, seconds: float) -> object:
            try:
                reply = self._request.send(text, conversation, headers, seconds)
                return self._request.answer_in(reply)
            except TooSlowError:
                raise AttemptOver(limit_reached(context.settings.attempt_time)) from None
            except NoAnswerError as error:
                raise AttemptOver(crashed("NoAnswer", self._surroundings.redact(str(error)))) from None
            except (OSError, HTTPException) as error:
                failed = f"{type(error).__name__}: {error}"
                raise AttemptOver(crashed("NoReply", f"no reply came of it: {failed}")) from None

        return converse(prompt, context, turn)
