"""Recognises a request to a model by its path and its body, whatever its host. Pure.

The API requires each of these shapes, and a shop's endpoint does not have one by chance: a path alone, or a
body with a list called ``messages``, proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from wirefault.dialects import Dialect
from wirefault.dialects.json_values import as_list, as_objects, as_text

JsonObject = Mapping[str, Any]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function", "model", "ipython"})
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning", "item_reference"})
_INVOKED = frozenset({"anthropic_version", "messages", "prompt", "inputText", "inputs", "texts"})
# Fields of the messages of web front ends (the AI SDK's), which send them to their own server.
_OF_FRONT_END = frozenset({"parts", "id", "createdAt"})


def spoken_model_api(path: str, body: bytes, *, cut: bool = False) -> Dialect:
    """The dialect of a POST request that asks a model; empty for any other request.

    ``cut``: the body is longer than this, so that fields after its messages may be missing.
    """
    recognise = next((recognise for end, recognise in _BY_PATH if end.search(path)), None)
    if recognise is None:
        return ""
    try:
        value = from_json(body, allow_partial=cut)
    except ValueError:
        return ""
    return recognise(path, value, cut) if isinstance(value, dict) else ""


def may_ask_model(path: str) -> bool:
    """Whether a POST to that path may ask a model, so that its body decides."""
    return any(end.search(path) for end, _ in _BY_PATH)


def _has_model(body: JsonObject, cut: bool) -> bool:
    """Whether it names a model; the name may come after what was cut off."""
    return bool(as_text(body.get("model"))) or (cut and "model" not in body)


def _has_messages(value: Any) -> bool:
    """Whether it is a list of a conversation's messages: each has a role, and content or tool calls."""
    messages = as_objects(value)
    return bool(messages) and len(messages) == len(as_list(value)) and all(map(_is_message, messages))


def _is_message(message: JsonObject) -> bool:
    return message.get("role") in _ROLES and ("content" in message or "tool_calls" in message)


def _chat_completions(path: str, body: JsonObject, cut: bool) -> Dialect:
    """On Azure the model is in the path: /openai/deployments/NAME/chat/completions."""
    named = _has_model(body, cut) or "/deployments/" in path
    return "openai_chat" if named and _has_messages(body.get("messages")) else ""


def _responses(path: str, body: JsonObject, cut: bool) -> Dialect:
    if not _has_model(body, cut):
        return ""
    value = body.get("input")
    if isinstance(value, str):  # a survey has responses too, and a car a model
        return "openai_responses" if _RESPONSES_BASE.search(path) else ""
    items = as_objects(value)
    known = all(map(_is_item, items)) and len(items) == len(as_list(value))
    return "openai_responses" if items and known else ""


def _is_item(item: JsonObject) -> bool:
    return _is_message(item) or item.get("type") in _ITEMS or as_text(item.get("type")).endswith("_call")


def _anthropic(path: str, body: JsonObject, cut: bool) -> Dialect:
    """On Vertex the model is in the path, and ``anthropic_version`` in the body."""
    if path.endswith("Predict"):
        named = bool(as_text(body.get("anthropic_version")))
    else:
        named = _has_model(body, cut)
    limited = isinstance(body.get("max_tokens"), int) or (cut and "max_tokens" not in body)
    asks = named and (limited or path.endswith("/count_tokens"))
    return "anthropic" if asks and _has_messages(body.get("messages")) else ""


def _gemini(path: str, body: JsonObject, cut: bool) -> Dialect:
    contents = body.get("contents", body.get("content", body.get("requests")))
    return "gemini" if isinstance(contents, list | dict) and contents else ""


def _completions(path: str, body: JsonObject, cut: bool) -> Dialect:
    has_text = isinstance(body.get("prompt"), str | list) or isinstance(body.get("input"), str | list)
    return "openai_chat" if _has_model(body, cut) and has_text else ""


def _ollama_chat(path: str, body: JsonObject, cut: bool) -> Dialect:
    messages = as_objects(body.get("messages"))
    of_front_end = any(_OF_FRONT_END & message.keys() for message in messages)
    return "ollama" if _has_model(body, cut) and _has_messages(messages) and not of_front_end else ""


def _ollama_generate(path: str, body: JsonObject, cut: bool) -> Dialect:
    has_text = isinstance(body.get("prompt"), str) or isinstance(body.get("input"), str | list)
    return "ollama" if _has_model(body, cut) and has_text else ""


def _bedrock_converse(path: str, body: JsonObject, cut: bool) -> Dialect:
    messages = as_objects(body.get("messages"))
    in_blocks = all(isinstance(message.get("content"), list) for message in messages)
    return "bedrock" if in_blocks and _has_messages(body.get("messages")) else ""


def _bedrock_invoke(path: str, body: JsonObject, cut: bool) -> Dialect:
    """The body is the model's own; these are the fields of those that Bedrock serves."""
    return "bedrock" if body.keys() & _INVOKED else ""


_RESPONSES_BASE = re.compile(r"\A(?:/[^/]+)*/(?:v1|openai)/responses\Z|\A/responses\Z")
_BY_PATH: tuple[tuple[re.Pattern[str], Callable[[str, JsonObject, bool], Dialect]], ...] = (
    (re.compile(r"/chat/completions\Z"), _chat_completions),
    (re.compile(r"/responses\Z"), _responses),
    (re.compile(r"/v1/messages(?:/count_tokens)?\Z|/models/[^/]+:(?:r|streamR)awPredict\Z"), _anthropic),
    (re.compile(r":(?:(?:g|streamG)enerateContent|countTokens|(?:e|batchE)mbedContents?)\Z"), _gemini),
    (re.compile(r"/(?:v1|deployments/[^/]+)/(?:completions|embeddings)\Z"), _completions),
    (re.compile(r"/api/chat\Z"), _ollama_chat),
    (re.compile(r"/api/(?:generate|embed|embeddings)\Z"), _ollama_generate),
    (re.compile(r"/model/[^/]+/converse(?:-stream)?\Z"), _bedrock_converse),
    (re.compile(r"/model/[^/]+/invoke(?:-with-response-stream)?\Z"), _bedrock_invoke),
)
