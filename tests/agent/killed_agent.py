"""``python -m tests.agent.killed_agent``: one attempt of the agent in a process that kills itself once.

Arguments: port of the server behind all links, file of checkpoints, ``RECOVERY``, file that marks the
kill, the number of the model request that the process does not survive, and whether it dies once the step
before is ``stored``, while it is ``storing`` it, or ``anyhow``. Prints the events as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from msgspec import to_builtins

from agent.checkpoints import Checkpoints, open_checkpoints
from agent.loop import STORED_TYPES, Agent
from tests.agent.support import SEND, Script, asks, context_in, lab_of, reports
from tests.support import PATIENCE_S
from wirefault.core.sockets import Address
from wirefault.history.events import Event
from wirefault.recovery.strategies import parse_recovery


class MortalModel(Script):
    """Replies by the number of its replies so far, which a restarted process does not remember."""

    killed: Path
    at: int
    ready: threading.Event
    """Set when the process may die."""

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        number = sum(isinstance(message, AIMessage) for message in messages)
        if number + 1 == self.at and not self.killed.exists():
            assert self.ready.wait(PATIENCE_S)
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ChatResult(generations=[ChatGeneration(message=self.replies[number])])


def watch_storing(memories: Checkpoints, ready: threading.Event, *, holds: bool) -> None:
    """Set ``ready`` once a tool result is stored, or if ``holds`` when only that is left to do."""
    put, put_writes = memories.saver.put, memories.saver.put_writes
    never = threading.Event()

    def watched_put(config: Any, checkpoint: Any, *rest: Any) -> Any:
        has_result = _has_result(checkpoint["channel_values"].get("messages", []))
        if holds and has_result:
            ready.set()  # LangGraph stores the steps in their order, so that those before are stored
            never.wait()
        stored = put(config, checkpoint, *rest)
        if has_result:
            ready.set()
        return stored

    def watched_put_writes(config: Any, writes: Sequence[tuple[str, Any]], *rest: Any) -> None:
        if holds and any(_has_result(value) for _, value in writes):
            never.wait()
        put_writes(config, writes, *rest)

    memories.saver.put, memories.saver.put_writes = watched_put, watched_put_writes  # type: ignore[method-assign]


def _has_result(messages: Any) -> bool:
    return isinstance(messages, list) and any(isinstance(message, ToolMessage) for message in messages)


def main(port: str, file: str, recovery: str, killed: str, at: str, when: str) -> None:
    replies, ready = [asks(SEND), asks(("get_inbox_message", {})), reports()], threading.Event()
    model = MortalModel(replies=replies, killed=Path(killed), at=int(at), ready=ready)
    strategies, events = parse_recovery(recovery), list[Event]()
    assert strategies.checkpoint
    with open_checkpoints(Path(file), strategies.checkpoint.durability, STORED_TYPES) as memories:
        if when == "anyhow" or model.killed.exists():
            ready.set()
        else:
            watch_storing(memories, ready, holds=when == "storing")
        agent = Agent(model, "subject", recovery=strategies, memories=memories)
        result = agent("the prompt", context_in(lab_of(Address("127.0.0.1", int(port))), events))
    print(
        json.dumps(
            {
                "response": result.response,
                "error": result.error,
                "events": [to_builtins(event) for event in events],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
