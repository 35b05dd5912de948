"""The memory of a conversation: LangGraph's checkpoints, and how an attempt continues from them.

Without the strategy ``checkpoint`` a conversation is in this process's memory. With it, each step is in
``state/checkpoints.db``: an attempt that failed, or whose process was killed, continues after its last stored
step, in the same process or another one, with the same idempotency keys by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from wirefault.core.identity import Identity
from wirefault.core.sqlite import connect

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

Graph = CompiledStateGraph[Any, Any, Any, Any]
Durability = Literal["exit", "async", "sync"]


def _serializer(types: Sequence[type]) -> JsonPlusSerializer:
    """Return a serializer that restores no types but LangChain's messages and these."""
    return JsonPlusSerializer(allowed_msgpack_modules=types)


@dataclass
class Memory:
    """The conversation of one attempt, with what an earlier process or attempt stored of it."""

    graph: Graph
    thread: str
    durability: Durability
    began: int
    """The attempt in which the conversation began; its steps keep their keys."""
    restored: StateSnapshot | None = None
    """The last stored step; None for a new conversation."""
    earlier: int = 0
    """The turns of earlier attempts, which are in the stored messages."""
    checkpoint: str = ""
    """The stored step that it continues; empty for the last one."""

    @property
    def messages(self) -> list[AnyMessage]:
        """The stored messages."""
        return list(self.restored.values.get("messages", [])) if self.restored else []

    @property
    def unfinished(self) -> bool:
        """Whether the last stored turn has no answer."""
        return self.restored is not None and bool(self.restored.tasks)

    @property
    def turns(self) -> list[list[AnyMessage]]:
        """The stored messages by turn of the user."""
        turns: list[list[AnyMessage]] = []
        for message in self.messages:
            if isinstance(message, HumanMessage):
                turns.append([])
            turns[-1].append(message)
        return turns[self.earlier :]

    @property
    def preserved(self) -> str:
        """The stored replies and results, in words; empty if nothing is stored but the prompt."""
        stored = self.messages
        if self.restored and self.restored.next:  # else all results are among the messages already
            for task in self.restored.tasks:
                stored += (task.result or {}).get("messages", [])
        counts = {
            "model replies": sum(isinstance(message, AIMessage) for message in stored),
            "tool results": sum(isinstance(message, ToolMessage) for message in stored),
        }
        return ", ".join(f"{number} {name}" for name, number in counts.items() if number)

    def config(self, recursion_limit: int) -> RunnableConfig:
        """Return the configuration of an invocation of the graph."""
        place = {"thread_id": self.thread, **({"checkpoint_id": self.checkpoint} if self.checkpoint else {})}
        return {"recursion_limit": recursion_limit, "configurable": place}


def _thread(identity: Identity, attempt: int) -> str:
    return f"{identity.run}-{identity.episode}-{attempt}"


@dataclass
class InProcessMemory:
    """The memory of conversations without the strategy ``checkpoint``."""

    types: Sequence[type]

    def open(self, graph: Graph, identity: Identity) -> Memory:
        saver = InMemorySaver(serde=_serializer(self.types))
        return _memory(graph, saver, "exit", _thread(identity, identity.attempt), identity.attempt)

    def finished(self, memory: Memory) -> None:
        """Nothing: the memory ends with the attempt."""


@dataclass
class Checkpoints:
    """The checkpoints of all conversations of a run, in one file."""

    saver: SqliteSaver
    durability: Durability
    _finished: list[str] = field(default_factory=list)

    def open(self, graph: Graph, identity: Identity) -> Memory:
        """Open the attempt's conversation, or continue the one that an earlier attempt left unfinished."""
        self._forget()
        for attempt in range(identity.attempt, 0, -1):
            memory = _memory(graph, self.saver, self.durability, _thread(identity, attempt), attempt)
            stored = memory.graph.get_state(memory.config(1))
            if stored.values.get("messages"):
                if attempt != identity.attempt and not stored.tasks:
                    break  # an earlier attempt came to its end
                memory.restored = stored
                return memory
        own = _thread(identity, identity.attempt)
        return _memory(graph, self.saver, self.durability, own, identity.attempt)

    def finished(self, memory: Memory) -> None:
        """Forget the conversation when the next one begins; until then its process may be killed."""
        self._finished.append(memory.thread)

    def _forget(self) -> None:
        while self._finished:
            self.saver.delete_thread(self._finished.pop())


@dataclass
class SessionCheckpoints(Checkpoints):
    """Conversations that last over several attempts: each attempt is one more turn of its episode's.

    A turn that failed is forgotten: the next one continues after the last turn that was answered.
    """

    resumed: dict[str, int] = field(default_factory=dict)
    """Episodes whose process was killed in mid-turn, with the attempt in which that turn began."""

    def open(self, graph: Graph, identity: Identity) -> Memory:
        """Open the episode's conversation for one more turn, or for the rest of one that was cut short."""
        thread = f"{identity.run}-{identity.episode}"
        memory = _memory(graph, self.saver, self.durability, thread, identity.attempt)
        stored = memory.graph.get_state(memory.config(1))
        began = self.resumed.pop(identity.episode, 0)
        if began and stored.tasks:
            memory.restored, memory.began = stored, began
            memory.earlier = len(memory.turns) - 1
        elif stored.tasks:
            history = memory.graph.get_state_history(memory.config(1))
            answered = next((each for each in history if each.values and not each.tasks), None)
            if answered is None:
                self.saver.delete_thread(thread)
            else:
                memory.checkpoint = str(answered.config["configurable"]["checkpoint_id"])
        return memory

    def finished(self, memory: Memory) -> None:
        """Nothing: the session continues."""

    def last(self, run: str, episode: str) -> str:
        """Return the id of the session's last stored step; empty without one."""
        step = self.saver.get_tuple({"configurable": {"thread_id": f"{run}-{episode}"}})
        return str(step.config["configurable"]["checkpoint_id"]) if step else ""

    def forget(self, run: str, episode: str) -> None:
        """Delete the session's conversation."""
        self.saver.delete_thread(f"{run}-{episode}")


def _memory(
    graph: Graph, saver: BaseCheckpointSaver[Any], durability: Durability, thread: str, began: int
) -> Memory:
    return Memory(graph.copy({"checkpointer": saver}), thread, durability, began)


@contextmanager
def open_checkpoints(file: Path, durability: Durability, types: Sequence[type]) -> Iterator[Checkpoints]:
    """Open the file of checkpoints for one run. Raises ``sqlite3.Error``.

    ``types``: those that a checkpoint may contain besides LangChain's.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver  # only here: few runs need it

    with closing(connect(file)) as connection:
        saver = SqliteSaver(connection, serde=_serializer(types))
        saver.setup()
        # not WAL, which it chooses: containers and the host share the file
        connection.execute("PRAGMA journal_mode=DELETE")
        yield Checkpoints(saver, durability)
