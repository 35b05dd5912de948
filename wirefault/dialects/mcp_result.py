"""What a tool of MCP gave, as one JSON document; and a response with another document in its place. Pure.

A server says the same twice: as ``structuredContent``, and as text for the model. Whoever changes the one and
not the other has made a contradiction, and not a wrong answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.json_values import as_object, as_objects, compact, is_json, parsed
from wirefault.dialects.mcp import McpMessage

_TEXT, _ONLY = "text", "result"  # the field of a document that is a text alone; of a result that is no object
_Changes = list[tuple[Any, Any]]


@dataclass(frozen=True)
class McpResult:
    """A good result. ``document``: its structured content; without any, the JSON of its text (a list of
    several texts), or ``{"text": ...}`` where that is no JSON."""

    message: McpMessage
    document: Any

    def with_document(self, document: Any) -> dict[str, Any]:
        """The response with that document: structured content and texts say the same."""
        result = dict(self.message.result or {})
        if "structuredContent" in result:
            result["structuredContent"] = document
            result["content"] = _like_structured(result["content"], self.document, document)
        else:
            result["content"] = _of_documents(result["content"], document)
        return {**self.message.value, "result": result}


def tool_result(message: McpMessage | None) -> McpResult | None:
    """None for an error, a result without any text, and what is no result of a tool."""
    if message is None or not message.is_tool_result:
        return None
    result = message.result or {}
    texts = [block[_TEXT] for block in _texts(result["content"])]
    structured = result.get("structuredContent")
    if result.get("isError") or not (texts or isinstance(structured, (dict, list))):
        return None
    if isinstance(structured, (dict, list)):
        return McpResult(message, structured)
    documents = [_document(text) for text in texts]
    return McpResult(message, documents[0] if len(documents) == 1 else documents)


def _texts(content: Any) -> list[dict[str, Any]]:
    return [block for block in as_objects(content) if isinstance(block.get(_TEXT), str)]


def _document(text: str) -> Any:
    value = parsed(text) if is_json(text) else None
    return value if isinstance(value, (dict, list)) else {_TEXT: text}


def _of_documents(content: Sequence[Any], document: Any) -> list[Any]:
    """The blocks with these documents as their texts; what is no text stays, behind them."""
    texts = _texts(content)
    several = len(texts) > 1 and isinstance(document, list)
    documents = document if several else [document]
    blocks = [
        {**texts[min(at, len(texts) - 1)], _TEXT: _text_of(one, texts[min(at, len(texts) - 1)][_TEXT])}
        for at, one in enumerate(documents)
    ]
    return [*blocks, *(block for block in content if block not in texts)]


def _text_of(document: Any, before: str) -> str:
    """The document in the form of the text before it."""
    if set(as_object(document)) == {_TEXT} and isinstance(document[_TEXT], str) and not is_json(before):
        return str(document[_TEXT])
    return json.dumps(document, ensure_ascii=False, indent=2) if "\n" in before else compact(document)


def _like_structured(content: Sequence[Any], before: Any, after: Any) -> list[Any]:
    """The blocks with what changed from one structured content to the other changed in their texts."""
    texts = _texts(content)
    said, says = as_object(before).get(_ONLY), as_object(after).get(_ONLY)
    if isinstance(said, list) and isinstance(says, list) and said == [_value(t[_TEXT]) for t in texts]:
        return _of_documents(content, [_block_value(item) for item in says]) if says else []
    changes = list(_changed_values(before, after))
    return [_restated(b, before, after, changes) if b in texts else b for b in content]


def _restated(block: dict[str, Any], before: Any, after: Any, changes: _Changes) -> dict[str, Any]:
    text = block[_TEXT]
    for said, says in ((before, after), (as_object(before).get(_ONLY), as_object(after).get(_ONLY))):
        if says is not None and said == _value(text):
            return {**block, _TEXT: says if isinstance(says, str) else _text_of(says, text)}
    for said, says in changes:
        text = _shown(says).join(re.split(rf"(?<!\w){re.escape(_shown(said))}(?!\w)", text))
    return {**block, _TEXT: text}


def _value(text: str) -> Any:
    return parsed(text) if is_json(text) else text


def _block_value(item: Any) -> Any:
    return {_TEXT: item} if isinstance(item, str) else item


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _changed_values(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    """The values that differ, where both documents have one in that place."""
    waiting = [(before, after)]
    while waiting:  # without recursion, since a result may be nested very deep
        one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            waiting += [(one[key], other[key]) for key in one if key in other]
        elif isinstance(one, list) and isinstance(other, list):
            waiting += zip(one, other, strict=False)
        elif one != other and isinstance(one, (str, int, float)) and one != "":
            yield one, other
