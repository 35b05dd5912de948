"""``http:``, an agent that runs already, here or elsewhere, and is asked over HTTP."""

from __future__ import annotations

from http.client import HTTPException

from windtunnel.links.subject_spec import CONVERSATION, RequestSpec
from windtunnel.subjects.agent_request import AgentRequest, NoAnswerError, TooSlowError
from windtunnel.subjects.conversation import AttemptOver, conversation_id, converse
from windtunnel.subjects.subject import AttemptContext, SubjectResult, crashed, limit_reached
from windtunnel.subjects.surroundings import Surroundings


class HttpAgent:
    """Sends each prompt by the request of its wiring. Raises ``SettingsError`` if that cannot be made."""

    kind = "http"

    def __init__(self, spec: RequestSpec, url: str, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._request = AgentRequest(spec, url, surroundings.environ, surroundings.where)
        self.holds_conversations = any(CONVERSATION in text for text in (*spec.sent_texts, url))
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
