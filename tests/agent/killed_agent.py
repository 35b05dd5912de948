"""``python -m tests.agent.killed_agent``: one attempt of the agent in a process that kills itself once.

Arguments: port of the server behind all links, file of checkpoints, ``RECOVERY``, file that marks the
kill, and the number of the model request that the process does not survive. Prints the events as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from agent.checkpoints import open_checkpoints
from agent.loop import STORED_TYPES, Agent
from tests.agent.support import SEND, Script, asks, context_in, lab_of, reports
from wirefault.core.sockets import Address
from wirefault.history.events import Event
from wirefault.recovery.strategies import parse_recovery


class MortalModel(Script):
    """Replies by the number of its replies so far, which a restarted process does not remember."""

    killed: Path
    at: int

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        number = sum(isinstance(message, AIMessage) for message in messages)
        if number + 1 == self.at and not self.killed.exists():
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ChatResult(generations=[ChatGeneration(message=self.replies[number])])


def main(port: str, file: str, recovery: str, killed: str, at: str) -> None:
    replies = [asks(SEND), asks(("get_inbox_message", {})), reports()]
    model = MortalModel(replies=replies, killed=Path(killed), at=int(at))
    strategies, events = parse_recovery(recovery), list[Event]()
    assert strategies.checkpoint
    with open_checkpoints(Path(file), strategies.checkpoint.durability, STORED_TYPES) as memories:
        agent = Agent(model, "subject", recovery=strategies, memories=memories)
        result = agent("the prompt", context_in(lab_of(Address("127.0.0.1", int(port))), events))
    print(
        json.dumps(
            {
                "response": result.response,
                "error": result.error,
                "events": [asdict(event) for event in events],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
