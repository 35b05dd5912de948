"""The APIs of models that a server which thinks in chat completions can speak: a path each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.anthropic import ANTHROPIC
from wirefault.dialects.chat_form import checked_body
from wirefault.dialects.chat_of_anthropic import anthropic_as_chat
from wirefault.dialects.chat_of_gemini import gemini_as_chat
from wirefault.dialects.chat_of_responses import responses_as_chat
from wirefault.dialects.gemini import GEMINI
from wirefault.dialects.http import Request
from wirefault.dialects.model_dialect import ModelDialect
from wirefault.dialects.openai_chat import OPENAI_CHAT, as_streamed
from wirefault.dialects.openai_responses import OPENAI_RESPONSES

_REFUSED = {
    "functions": "send 'tools'",
    "function_call": "send 'tool_choice'",
    "audio": "it writes text only",
    "web_search_options": "it searches by tools only",
    "logprobs": "a script has no probabilities",
    "logit_bias": "a script has no probabilities",
}


@dataclass(frozen=True)
class ChatApi:
    """``as_chat`` gives the body that chat completions would have for a request, or raises ``ValueError``.

    ``reply_prefix`` is how the ids of replies begin; ``usage_key`` is where a reply has its tokens.
    """

    dialect: ModelDialect
    as_chat: Callable[[Request], dict[str, Any]]
    reply_prefix: str = ""
    usage_key: str = "usage"

    def refusal(self, message: str, code: str, status: int) -> dict[str, Any]:
        """The error of a request that is refused; its type is that of any refusal with that status."""
        form = self.dialect.errors["not_found" if status == 404 else "context_length"]
        return self.dialect.error_body(form.type or "", message, code=code)

    def new_reply(self, id: str, model: str, created: int, prompt: int, completion: int) -> dict[str, Any]:
        """A reply that says nothing yet, with the tokens of the request and of what it will say."""
        reply = self.dialect.new_reply(f"{self.reply_prefix}{id}", model, created)
        return {**reply, self.usage_key: self.dialect.usage(prompt, completion)}

    def events(self, body: dict[str, Any], usage_wanted: bool) -> Iterator[bytes]:
        """A reply as an event stream. ``usage_wanted``: chat completions have the tokens only on request."""
        return self.dialect.spread(as_streamed(body, usage_wanted) if self.dialect is OPENAI_CHAT else body)


CHAT_API = ChatApi(OPENAI_CHAT, lambda request: checked_body(request, _REFUSED), "chatcmpl-")
_GEMINI_API = ChatApi(GEMINI, gemini_as_chat, usage_key="usageMetadata")
V1_BASES = ("/openai/v1", "/v1")
_V1_APIS = {
    "/chat/completions": CHAT_API,
    "/responses": ChatApi(OPENAI_RESPONSES, responses_as_chat, "resp_"),
    "/messages": ChatApi(ANTHROPIC, anthropic_as_chat, "msg_"),
}
CHAT_APIS: Mapping[str, ChatApi] = {
    **{base + end: api for base in V1_BASES for end, api in _V1_APIS.items()},
    **{
        f"{base}/models/{{model}}{end}": _GEMINI_API
        for base in ("/v1beta", *V1_BASES)  # the official clients' usual version has changed
        for end in GEMINI.path_end
    },
}
