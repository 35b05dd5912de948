"""Which of the offered tools is the final form that a framework asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.dialects.json_values import as_text

# the names and descriptions that frameworks give to a tool that ends the conversation
_FORM_NAME = re.compile(
    r"((submit|give|provide|return)_)?final_(answer|response|output|result)(_tool)?|final_result_\w+"
    r"|set_model_response|_*finish_*|structured_?output(_?tool)?|response_format_\w+",
    re.IGNORECASE,
)
_FORM_DESCRIPTION = re.compile(
    r"ends this conversation|to the user\W+ends the task|last and final tool|^correctly extracted"
    r"|^respond with a json object|^submit an answer for evaluation|^set your final response"
    r"|signals the completion of the (current )?task"
    r"|(provid|giv|return)(e|es|s|ing)? (a|the|your) final answer",
    re.IGNORECASE,
)
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_TOOL_NOUN = re.compile(r"(Search|Lookup|Query|Agent|Tool|Retriever|[a-z]ator)$")
_EXTRACTS = re.compile(r"(extract|respond|answer|output|format|classify)(_|$)")
_VERB = re.compile(
    r"(add|ask|book|buy|calculate|call|cancel|change|check|compute|convert|copy|create|delete|edit|email"
    r"|execute|fetch|find|generate|get|list|look|make|move|notify|open|pay|play|post|publish|query|read"
    r"|remove|reserve|retrieve|return|run|save|schedule|search|send|set|show|start|stop|store|submit|tell"
    r"|tool|transfer|translate|turn|update|upload|use|useful|verify|write)(e?s)?"
)


def split_tools(
    tools: Sequence[dict[str, Any]], tool_choice: str | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tools that work, and the output tools that take the final answer: several are alternatives.

    ``tool_choice`` is ``none``, ``auto``, ``required``, the name of a tool, or None. A tool that is named
    is the only one. A form that is named after a class looks like any tool, so it counts as one only where a
    call is required.
    """
    if tool_choice == "none":
        return [], []
    named = [tool for tool in tools if tool["function"]["name"] == tool_choice]
    offered = named or list(tools)
    required = tool_choice not in (None, "auto")
    forms = [
        tool
        for tool in offered
        if _says_form(tool["function"], bool(named)) or (required and _is_class(tool["function"]))
    ]
    return [tool for tool in offered if tool not in forms], forms


def _says_form(function: Mapping[str, Any], named: bool) -> bool:
    name, description = function["name"], as_text(function.get("description")).strip()
    return bool(
        _FORM_NAME.fullmatch(name)
        or _FORM_DESCRIPTION.search(description)
        or (named and _EXTRACTS.match(name))
    )


def _is_class(function: Mapping[str, Any]) -> bool:
    """Whether it is named like a class of data: no verb leads its name or its description."""
    name = function["name"]
    first, *rest = words_of(name) or [""]
    described = words_of(as_text(function.get("description")))[:1]
    works = _TOOL_NOUN.search(name) or any(map(_VERB.fullmatch, [*described, *([first] if rest else [])]))
    return bool(_CLASS_NAME.fullmatch(name)) and not works


def words_of(name: str) -> list[str]:
    """The words of a name in snake or camel case, in lower case."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+", name)
    return [word.lower() for word in words]
