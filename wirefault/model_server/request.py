"""What the scripted model is asked, as chat completions: the requests of other APIs become these.

What would change the reply and cannot be done is a ``BadRequest``. Ignored is what has no meaning for short
replies that are always the same: temperature, top_p, penalties, max_tokens, stop and the like.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wirefault.dialects.chat_apis import ChatApi, text_at
from wirefault.dialects.http import Request


class BadRequest(Exception):
    """A request that is answered with an error in the provider's form."""

    def __init__(self, message: str, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(message)
        self.message, self.code, self.status = message, code, status


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.content is None and self.role in ("system", "user", "tool"):
            raise ValueError("content is missing")
        text_at("content", self.content, "text", "refusal")
        return self


class _Function(_Strict):
    name: str
    parameters: dict[str, Any] | None = None


class _Tool(_Strict):
    type: Literal["function"] = "function"
    function: _Function


class _Form(_Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema" and not isinstance(self.json_schema.get("schema"), dict):
            raise ValueError("json_schema.schema is missing")
        return self


class ChatRequest(_Strict):
    """A checked request. Whatever else it has is kept, and ignored."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required", "any"] | _Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Form | None = None
    n: Literal[1] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    modalities: list[Literal["text"]] | None = None

    @classmethod
    def parse(cls, sent: Request, api: ChatApi) -> ChatRequest:
        """Raises ``BadRequest`` that names what is wrong."""
        try:
            sent.json()
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}", "invalid_json") from None
        try:
            request = cls.model_validate(api.as_chat(sent))
        except ValidationError as error:
            deepest = max(error.errors(), key=lambda each: len(each["loc"]))
            # pydantic names the branch of a union too, by its type
            where = ".".join(str(key) for key in deepest["loc"] if not re.match(r"_|\w+\[", str(key)))
            raise BadRequest(f"'{where or 'body'}': {deepest['msg']}".replace("Value error, ", "")) from None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        offered = (tool.function.name for tool in request.tools or [])
        if request.choice not in ["none", "auto", "required", *offered]:
            raise BadRequest(f"'tool_choice': no tool of 'tools' is called {request.choice}")
        return request

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required``, or the name of the tool to call."""
        choice = self.tool_choice or "auto"
        return choice.function.name if isinstance(choice, _Tool) else choice.replace("any", "required")

    def sent(self, name: Literal["messages", "tools"]) -> list[dict[str, Any]]:
        """The messages, or the tools, as they were sent."""
        return [each.model_dump(exclude_unset=True) for each in getattr(self, name) or []]
