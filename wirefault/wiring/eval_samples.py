"""Samples of evaluations in our own form: a prompt in one column, the expected answer in another.

Read are the names of columns that OpenAI's evals, DeepEval, pydantic-evals, LangSmith, Langfuse, Ragas and
inspect_ai write, in any case. ``Entry.read_as`` says which columns were taken. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

# of several columns with an expected answer, the first counts: with one, ``output`` is what an agent wrote
_PROMPTS = ("input", "inputs", "question", "query", "user_input", "instruction")
_ANSWERS = (
    "ideal", "expected", "expected_output", "expectedoutput", "expected_answer", "reference_output",
    "ground_truth", "reference", "target", "outputs", "answer", "output",
)  # fmt: skip
_OWN = ("id", "expect", "tool_links", "next_turn", "max_turns", "paraphrases", "metadata")
_MAX_WORDS = 6  # a longer text is a sentence, which right answers rarely repeat word for word


@dataclass(frozen=True)
class Entry:
    """One entry of a prompts file, in our own form."""

    value: object
    where: str
    """Its file and line."""
    unread: tuple[str, ...] = ()
    """The parts of the entry without a counterpart here, a line each."""
    problem: str = ""
    """Why the entry cannot be run."""
    read_as: str = ""
    """The columns that were taken of another tool's sample; one line for all samples with these columns."""


def has_prompt_column(names: Mapping[str, Any] | Sequence[str]) -> bool:
    """Whether one of the names is a column that evaluations keep their prompts in."""
    return any(_column(name) in _PROMPTS for name in names)


def _column(name: object) -> str:
    return str(name).strip().lower().replace(" ", "_")


def sample(entry: Entry, value: Mapping[str, Any]) -> Entry:
    """Convert a sample; its expected answer must occur in the agent's, as with OpenAI's class Includes."""
    filled = {name: each for name, each in value.items() if each not in (None, "", [], {})}
    # an empty one is named, so that its problem is
    prompts = [name for name in filled if _column(name) in _PROMPTS]
    prompts = prompts or [name for name in value if _column(name) in _PROMPTS][:1]
    answers = sorted(
        (name for name in filled if _column(name) in _ANSWERS), key=lambda name: _ANSWERS.index(_column(name))
    )
    try:
        if len(prompts) > 1:
            names = " and ".join(f'"{name}"' for name in prompts)
            raise ValueError(f'has {names}: which is the prompt? Name it "prompt"')
        own = _prompt(value[prompts[0]], prompts[0])
    except ValueError as error:
        return replace(entry, value=None, problem=str(error))
    unread, taken = list(entry.unread), f'prompt from "{prompts[0]}"'
    if answers and "expect" not in filled:
        try:
            own["expect"] = {"answer": _rule(answers[0], filled[answers[0]])}
            taken += f', expected answer from "{answers[0]}"'
        except ValueError as error:
            unread.append(f"{answers[0]} is not checked: {error}")
    used = (*prompts, *answers[:1]) if "expect" in own else prompts
    rest = {name: each for name, each in filled.items() if name not in used}
    if rest.pop("evaluators", None):  # pydantic-evals'
        unread.append("its evaluators are not read")
    if others := [name for name in rest if name not in _OWN]:
        taken += f"; not shown to the agent: {', '.join(others)}"
    own |= {name: each for name, each in rest.items() if name in _OWN and name != "metadata"}
    metadata = rest.get("metadata", {})
    if not isinstance(metadata, dict):
        metadata = {"metadata": metadata}
    if metadata := {name: rest[name] for name in others} | metadata:
        own["metadata"] = metadata
    return replace(entry, value=own, unread=tuple(unread), read_as=taken)


def _prompt(value: object, name: str) -> dict[str, Any]:
    """Return ``prompt`` or ``turns`` of a text, of messages, or of the only field of an object."""
    if isinstance(value, dict):
        if isinstance(value.get("messages"), list):
            value = value["messages"]
        elif len(value) == 1:
            [value] = value.values()
    if isinstance(value, str):
        return {"prompt": value}
    if not isinstance(value, list) or not value:
        raise ValueError(f'"{name}" must be a text or a list of messages')
    turns = turns_of(value, f'"{name}"')
    return {"prompt": turns[0]} if len(turns) == 1 else {"turns": turns}


def _rule(name: str, value: Any) -> dict[str, Any]:
    """Return the rule for an expected answer. Raises ``ValueError`` for one that cannot be compared."""
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    texts = [plain_text(each) for each in (value if isinstance(value, list) else [value])]
    if not all(text.strip() for text in texts):
        raise ValueError("an expected answer is empty")
    longest = max(len(text.split()) for text in texts)
    if _column(name) != "ideal" and longest > _MAX_WORDS:
        raise ValueError(
            f"it has {longest} words, and only answers of at most {_MAX_WORDS} are compared word for word:"
            ' say in "expect" what the answer must contain'
        )
    return {"contains": texts[0]} if len(texts) == 1 else {"any_of": texts}


def turns_of(messages: Sequence[Any], where: str) -> list[str]:
    """Return the users' messages, with system messages in front of the first. Raises ``ValueError``."""
    system: list[str] = []
    turns: list[str] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        text = _content(message.get("content")) if isinstance(message, dict) else None
        if text is None:
            raise ValueError(f"{where} has a message that is not text")
        if role in ("system", "developer") and not turns:
            name = message.get("name")
            system.append(f"{name}: {text}" if isinstance(name, str) and name else text)
        elif role == "user":
            turns.append(text)
        else:
            raise ValueError(
                f"{where} has a message of role {role!r} that cannot be replayed: agents answer themselves"
            )
    if not turns:
        return ["\n\n".join(system)]
    return ["\n\n".join([*system, turns[0]]), *turns[1:]]


def _content(content: object) -> str | None:
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        if len(texts) != len(content) or not all(isinstance(text, str) for text in texts):
            return None
        return "\n".join(map(str, texts))
    return content if isinstance(content, str) else None


def plain_text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int | float):
        raise ValueError("value must be a text or a number")
    return value if isinstance(value, str) else json.dumps(value)
