"""Faults of the conversation in the request to the model: its order and its texts."""

from __future__ import annotations

import random
from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import HTTP_ERRORS
from wirefault.dialects.conversation import (
    ChatMessage,
    Conversation,
    read_conversation,
    role_of,
    set_text,
    text_of,
    with_new_ids,
)
from wirefault.faults.base import Act, Fault, Miss, Try, evidence_text


class ContextFault(Fault):
    """Changes the conversation in the request to the model."""

    family = "context"
    where = "model"
    needs_body = True
    can_cause = frozenset({"http_4xx", "http_5xx"})

    def act(self, tried: Try) -> Act | Miss:
        if tried.request.header("authorization").startswith("AWS4-"):
            return Miss("not_in_dialect")  # the client has signed this body: no other is accepted
        try:
            chat = read_conversation(tried.request, tried.dialect)
        except ValueError:
            return Miss("unreadable")
        return self.change(tried, chat)

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        """Change the conversation and forward the request with it."""
        raise NotImplementedError


def rewritten(tried: Try, conversation: Conversation, **evidence: Any) -> Act:
    """Forward the request with this conversation instead. Long texts of the evidence are cut."""
    evidence = {key: evidence_text(item) if isinstance(item, str) else item for key, item in evidence.items()}
    return Act(request=tried.request.with_json(conversation.as_body()), evidence=evidence)


def random_for(tried: Try, purpose: str) -> random.Random:
    """Random numbers for that purpose, seeded by the schedule's keyed draw."""
    return random.Random(tried.chance(purpose))


_Role = Literal["user", "assistant", "tool", "system"]
_PADDING = "This line holds no information that matters for the task at hand. "
_ABROAD = {
    "the": "das", "and": "und", "is": "ist", "what": "quoi", "in": "dans", "of": "de", "to": "zu", "a": "un",
    "for": "para", "on": "sur", "with": "mit", "my": "mi", "me": "mir", "tell": "dime", "how": "wie",
    "send": "envoie", "message": "mensaje", "weather": "Wetter", "tomorrow": "mañana", "today": "heute",
}  # fmt: skip


class InjectMessage(ContextFault):
    """Add a message to the conversation."""

    name = "inject_message"

    text: str = Field("Please note: the plan has changed.", min_length=1, description="text of the message")
    role: Literal["user", "assistant", "system"] = Field("user", description="role of the message")
    position: Literal["end", "start", "random"] = Field("end", description="position of the message")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system_units, units = chat.split()
        places = {"end": len(units), "start": 0}
        at = places.get(self.position, int(tried.chance("place") * (len(units) + 1)))
        chat.set_units(system_units, units[:at], [[{"role": self.role, "content": self.text}]], units[at:])
        return rewritten(tried, chat, index=at, role=self.role, original=None, changed=self.text)


class _TextFault(ContextFault):
    """Changes the texts of messages of some roles by ``altered``."""

    roles: tuple[_Role, ...] = Field(("user", "tool"), description="whose messages")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        changes = []
        for at, message in chat.indexed(*self.roles):
            before = text_of(message)
            after = self.altered(before, random_for(tried, f"text {at}"))
            if after != before:
                set_text(message, after)
                changes.append((at, role_of(message), before, after))
        if not changes:
            return Miss("nothing_to_change")
        at, role, before, after = changes[-1]
        return rewritten(
            tried, chat, messages=len(changes), index=at, role=role, original=before, changed=after
        )

    def altered(self, text: str, numbers: random.Random) -> str:
        """The changed text."""
        raise NotImplementedError


class Noise(_TextFault):
    """Drop, double, swap or replace letters in the messages, as in a bad transcription."""

    name = "noise"

    rate: float = Field(0.03, gt=0, le=1, description="share of the letters that is changed")

    def altered(self, text: str, numbers: random.Random) -> str:
        return _garbled(text, self.rate, numbers)


class Encoding(_TextFault):
    """Decode the messages with a wrong encoding: ``Zürich`` becomes ``ZÃ¼rich`` or ``Z�rich``.

    ASCII text is the same in most encodings and passes: the prompts and tool results of the lab are ASCII, so
    there only ``utf8_as_utf16`` acts, which turns pairs of letters into Chinese ones.
    """

    name = "encoding"

    kind: Literal["utf8_as_latin1", "latin1_as_utf8", "twice", "utf8_as_utf16"] = Field(
        "utf8_as_latin1", description="the mistake (twice: utf8_as_latin1, applied twice)"
    )
    roles: tuple[_Role, ...] = Field(("user", "assistant", "tool", "system"), description="whose messages")

    def altered(self, text: str, numbers: random.Random) -> str:
        if self.kind == "utf8_as_utf16":
            return text.encode("utf-8", "replace").decode("utf-16-le", "replace")
        if self.kind == "latin1_as_utf8":
            return text.encode("latin-1", "replace").decode("utf-8", "replace")
        for _ in range(2 if self.kind == "twice" else 1):
            text = text.encode("utf-8", "replace").decode("latin-1")
        return text


class Overflow(ContextFault):
    """Pad the conversation with meaningless text, up to a full context.

    The padding precedes the text of the first message after the system messages. The model refuses a request
    that exceeds its context; a shorter one costs you the tokens of the padding.
    """

    name = "overflow"
    can_cause = HTTP_ERRORS

    characters: int = Field(400_000, ge=1, le=8_000_000, description="characters added")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        first = next((m for _, m in chat.indexed("user", "assistant")), None)
        if first is None:
            return Miss("nothing_to_change")
        padding = (_PADDING * (self.characters // len(_PADDING) + 1))[: self.characters]
        set_text(first, f"{padding}\n{text_of(first)}")
        return rewritten(tried, chat, characters=self.characters)


class UserInput(ContextFault):
    """Change the user's last message.

    ``emptied`` (no words), ``cut`` (only the first half), ``contradicted`` (asks for the opposite at the
    end), ``repeated`` (three times), ``mixed_language`` (common words in other languages), ``garbled`` (many
    typos).
    """

    name = "user_input"

    kind: Literal["emptied", "cut", "contradicted", "repeated", "mixed_language", "garbled"] = Field(
        "cut", description="the change"
    )

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        messages = list(chat.indexed("user"))
        if not messages:
            return Miss("nothing_to_change")
        at, message = messages[-1]
        before = text_of(message)
        after = self._altered(before, tried)
        if after == before:
            return Miss("nothing_to_change")
        set_text(message, after)
        return rewritten(tried, chat, index=at, role="user", original=before, changed=after)

    def _altered(self, text: str, tried: Try) -> str:
        match self.kind:
            case "emptied":
                return " "
            case "cut":
                return (
                    text[: (len(text) + 1) // 2].rsplit(" ", 1)[0] if " " in text else text[: len(text) // 2]
                )
            case "contradicted":
                return f"{text}\nNo, wait: do not do that. Do the opposite."
            case "repeated":
                return "\n".join([text] * 3)
            case "mixed_language":
                return " ".join(_ABROAD.get(word.lower(), word) for word in text.split(" "))
        return _garbled(text, 0.2, random_for(tried, "garbled"))


def _garbled(text: str, rate: float, numbers: random.Random) -> str:
    """Drop, double, swap or replace that share of the text's letters, at least one."""
    places = [at for at, letter in enumerate(text) if letter.isalpha()]
    if not places:
        return text
    touched = [at for at in places if numbers.random() < rate] or [numbers.choice(places)]
    letters = list(text)
    for at in touched:
        _touch(letters, at, numbers)
    return "".join(letters)


def _touch(letters: list[str], at: int, numbers: random.Random) -> None:
    match numbers.randrange(4):
        case 0:
            letters[at] = ""
        case 1:
            letters[at] *= 2
        case 2 if at + 1 < len(letters) and letters[at + 1] != letters[at]:
            letters[at : at + 2] = letters[at + 1], letters[at]
        case _:
            letters[at] = "q" if letters[at] == "x" else "x"


class TruncateHistory(ContextFault):
    """Remove the beginning of the conversation from the request.

    System messages stay. With ``keep_pairs`` tool results stay with their calls, so that the API accepts the
    request. Without it messages are counted one by one, and real APIs refuse (400) a result without its call.
    """

    name = "truncate_history"

    keep_last: int | None = Field(None, ge=1, description="number of units that are kept; overrides fraction")
    fraction: float = Field(0.5, ge=0, lt=1, description="share of the units that is kept, at least one")
    keep_pairs: bool = Field(True, description="keep tool results with their calls")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        if not self.keep_pairs:
            units = [[message] for unit in units for message in unit]
        keep = max(1, int(len(units) * self.fraction)) if self.keep_last is None else self.keep_last
        if keep >= len(units):
            return Miss("nothing_to_change")
        before = len(chat.messages)
        chat.set_units(system, units[-keep:])
        return rewritten(tried, chat, messages=before, left=len(chat.messages))


class ReorderHistory(ContextFault):
    """Shuffle the conversation's messages.

    The first message after the system messages keeps its place, and so does a last message of the user. Tool
    results stay with their calls, so that the API accepts the request. If the rest is a single round of
    parallel calls, their results change places. A conversation with one call and its result has nothing to
    reorder: the fault acts on tasks of two calls or more.
    """

    name = "reorder_history"

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        last = len(units) - 1 if units and role_of(units[-1][-1]) == "user" else len(units)
        middle = units[1:last]
        mixed = list(middle)
        random_for(tried, "order").shuffle(mixed)
        if mixed == middle:
            mixed = middle[1:] + middle[:1]
        if mixed == middle:
            return self._with_results_reordered(tried, chat, system, units)
        order = [next(at for at, other in enumerate(middle) if other is unit) + 1 for unit in mixed]
        chat.set_units(system, units[:1], mixed, units[last:])
        return rewritten(tried, chat, order=order)

    def _with_results_reordered(
        self,
        tried: Try,
        chat: Conversation,
        system: list[list[ChatMessage]],
        units: list[list[ChatMessage]],
    ) -> Act | Miss:
        """Move the first result of parallel calls behind the others."""
        at = next((at for at, unit in enumerate(units) if _has_parallel_results(unit)), None)
        if at is None:
            return Miss("nothing_to_change")
        call, first, *others = units[at]
        chat.set_units(system, units[:at], [[call, *others, first]], units[at + 1 :])
        return rewritten(tried, chat, results=[*range(2, len(others) + 2), 1])


def _has_parallel_results(unit: list[ChatMessage]) -> bool:
    results = unit[1:]
    return len(results) > 1 and all(role_of(message) == "tool" for message in results)


class DropMessage(ContextFault):
    """Remove one message from the conversation.

    Tool calls are removed with their results. Without ``keep_pairs`` a single message is removed; if half a
    pair is left, real APIs refuse the request (400).
    """

    name = "drop_message"

    which: Literal["random", "oldest", "newest", "system"] = Field("random", description="which message")
    keep_pairs: bool = Field(True, description="drop tool results with their calls")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        pool = system if self.which == "system" else units
        if not self.keep_pairs:
            pool[:] = [[message] for unit in pool for message in unit]
        if len(system) + len(units) < 2 or not pool:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(pool) - 1}.get(self.which, int(tried.chance("which") * len(pool)))
        gone = pool.pop(at)
        chat.set_units(system, units)
        text = "\n".join(text_of(message) for message in gone)
        return rewritten(
            tried, chat, roles=[role_of(message) for message in gone], original=text, changed=None
        )


class DuplicateMessage(ContextFault):
    """Repeat one message of the conversation, tool calls with their results (under new ids)."""

    name = "duplicate_message"

    which: Literal["random", "oldest", "newest"] = Field("random", description="which message")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        if not units:
            return Miss("nothing_to_change")
        at = {"oldest": 0, "newest": len(units) - 1}.get(self.which, int(tried.chance("which") * len(units)))
        twin = [with_new_ids(message, "_again") for message in units[at]]
        chat.set_units(system, units[: at + 1], [twin], units[at + 1 :])
        text = "\n".join(text_of(message) for message in twin)
        return rewritten(tried, chat, roles=[role_of(message) for message in twin], duplicated=text)


class StaleContext(ContextFault):
    """Give the model an outdated conversation.

    ``older_result``: the newest tool result has the text of an earlier one; ``forgotten``: the last
    ``turns`` calls with their results are removed.
    """

    name = "stale_context"

    kind: Literal["older_result", "forgotten"] = Field("older_result", description="what is outdated")
    turns: int = Field(1, ge=1, description="number of calls that are removed")

    def change(self, tried: Try, chat: Conversation) -> Act | Miss:
        change = self._older if self.kind == "older_result" else self._forgotten
        return change(tried, chat)

    def _older(self, tried: Try, chat: Conversation) -> Act | Miss:
        results = list(chat.indexed("tool"))
        newest = text_of(results[-1][1]) if results else ""
        earlier = next((m for _, m in reversed(results[:-1]) if text_of(m) != newest), None)
        if earlier is None:
            return Miss("nothing_to_change")
        at, message = results[-1]
        set_text(message, text_of(earlier))
        return rewritten(tried, chat, index=at, original=newest, changed=text_of(earlier))

    def _forgotten(self, tried: Try, chat: Conversation) -> Act | Miss:
        system, units = chat.split()
        calls = [at for at, unit in enumerate(units) if role_of(unit[-1]) == "tool"]
        gone = set(calls[-self.turns :])
        if not gone or len(gone) == len(units):
            return Miss("nothing_to_change")
        text = "\n".join(text_of(message) for at in sorted(gone) for message in units[at])
        chat.set_units(system, [unit for at, unit in enumerate(units) if at not in gone])
        return rewritten(tried, chat, forgotten=len(gone), original=text, changed=None)


CONTEXT_FAULTS: tuple[type[Fault], ...] = (
    TruncateHistory,
    ReorderHistory,
    DropMessage,
    DuplicateMessage,
    InjectMessage,
    Noise,
    Encoding,
    StaleContext,
    Overflow,
    UserInput,
)
