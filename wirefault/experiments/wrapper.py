"""An object with tools whose calls fail at one level: the quickest look at an agent of this process."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.faults.sets.fault_set import MAX_CHAOS_LEVEL
from wirefault.history.events import Exchange
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.runner.in_process import BlockSubject, InProcessLab
from wirefault.settings.configuration import load_configuration
from wirefault.subjects.functions.marking import marked
from wirefault.wiring.links import FUNCTIONS_NAME
from wirefault.wiring.prompts import Prompt
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

RATE_PER_LEVEL = 0.1
"""Chance of a failed call at level 1: 2.5 % at 0.25, 20 % at 2."""
_CALLS = 100
# By switch: its fault, its parameters, and its chance as a multiple of the level's.
_FAULTS: Mapping[str, tuple[str, Mapping[str, Any], float]] = {
    "tool_failures": ("unavailable", {}, 1.0),
    "delays": ("delay", {"ms": 500}, 2.0),
    "hallucinations": ("wrong_value", {}, 0.5),
    "context_corruption": ("changed_arguments", {}, 0.3),
}


@dataclass
class _Operations:
    """Counts of one tool's calls."""

    total: int = 0
    succeeded: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        rate = self.succeeded / self.total if self.total else None
        failed = self.total - self.succeeded
        counts = {"total": self.total, "succeeded": self.succeeded, "failed": failed}
        return {**counts, "success_rate": rate, "seconds": round(self.seconds, 6)}


@dataclass
class _Switches:
    """Which faults are on."""

    tool_failures: bool = True
    delays: bool = True
    hallucinations: bool = False
    context_corruption: bool = False
    budget_exhaustion: bool = False


class Wrapper:
    """Breaks calls of an object's tools: methods, functions in its ``tools``, or the tools of a crew.

    ``level`` is 0 to 2: the chance that a call fails is a tenth of it. A failed call raises as the tool's own
    HTTP client would, and is never tried again here. The lab starts with the first call and ends with
    ``close`` or the ``with`` block. Raises ``InputError`` for a bad level, and for an object without tools.
    """

    def __init__(self, wrapped: object, level: float = 0.0, *, seed: int = 1) -> None:
        self.wrapped = wrapped
        self._seed = seed
        self._level = _checked_level(level)
        self._switches = _Switches()
        self._operations: dict[str, _Operations] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._stack = ExitStack()
        self._session: _Session | None = None
        self._faults: Counter[str] = Counter()

    def configure(self, level: float | None = None, **switches: bool) -> Wrapper:
        """Set the level and the switches, before the first call; return this wrapper.

        ``enable_tool_failures`` (status 503) and ``enable_delays`` (500 ms, at twice the chance) are on;
        ``enable_hallucinations`` (a wrong figure in the result, at half the chance),
        ``enable_context_corruption`` (a changed argument, at 0.3 of it) and ``enable_budget_exhaustion``
        (after 100 calls) are off. Raises ``InputError`` for an unknown switch, and after the first call.
        """
        if self._session is not None:
            raise InputError("configure: must come before the first call")
        names = {f"enable_{name}" for name in vars(_Switches())}
        for name, value in switches.items():
            if name not in names:
                raise InputError(f"configure: unknown switch {name!r}{nearest(name, sorted(names))}")
            self._switches = replace(self._switches, **{name.removeprefix("enable_"): bool(value)})
        if level is not None:
            self._level = _checked_level(level)
        return self

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the tool of that name once, perhaps with a fault; raises what the tool or the fault raises."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = marked(_tool(self.wrapped, name), name)
        return self._counted(name, function, args, kwargs)

    def kickoff(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped crew's ``kickoff``, whose agents' tools meet the faults."""
        kickoff = getattr(self.wrapped, "kickoff", None)
        if not callable(kickoff):
            raise InputError("kickoff: the wrapped object has no such method: use call")
        tools = list(_tools_of_crew(self.wrapped))
        if not tools:
            raise InputError("kickoff: the crew has no tools, so nothing could fail")
        for tool in tools:
            _mark_tool(tool)
        return self._counted("kickoff", kickoff, args, kwargs)

    @property
    def metrics(self) -> dict[str, Any]:
        """Counts so far: ``aggregate`` and ``tools`` with ``operations``, and ``faults`` that were injected.

        The fault of the last call may be recorded a moment later. ``success_rate`` is the share of the calls
        that returned; None without calls.
        """
        total = _Operations(
            sum(each.total for each in self._operations.values()),
            sum(each.succeeded for each in self._operations.values()),
            sum(each.seconds for each in self._operations.values()),
        )
        faults = self._session.injected() if self._session is not None else self._faults
        return {
            "level": self._level,
            "rate": round(self._level * RATE_PER_LEVEL, 6),
            "aggregate": {"operations": total.as_json()},
            "tools": {name: {"operations": each.as_json()} for name, each in self._operations.items()},
            "faults": dict(faults),
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return ``metrics``."""
        return self.metrics

    def close(self) -> None:
        """End the lab. A later call starts another."""
        if self._session is not None:
            self._faults = self._session.injected()
        self._session = None
        self._stack.close()

    def __enter__(self) -> Wrapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _counted(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        session = self._started()
        operations = self._operations.setdefault(name, _Operations())
        operations.total += 1
        began = time.perf_counter()
        try:
            with session.lab.tap.active():
                result = function(*args, **kwargs)
        finally:
            operations.seconds += time.perf_counter() - began
        operations.succeeded += 1
        return result

    def _started(self) -> _Session:
        if self._session is None:
            with ExitStack() as stack:
                self._session = _open(stack, self._seed, self._entries(), self._budgets())
                self._stack = stack.pop_all()
        return self._session

    def _entries(self) -> list[dict[str, Any]]:
        entries = []
        for switch, (fault, parameters, factor) in _FAULTS.items():
            chance = self._level * RATE_PER_LEVEL * factor
            if getattr(self._switches, switch) and chance:
                entry = {"fault": fault, "links": FUNCTIONS_NAME, "when": {"probability": chance}}
                entries.append({**entry, "with": dict(parameters)} if parameters else entry)
        return entries

    def _budgets(self) -> str:
        limits = {"episode": {"calls": _CALLS}, "links": "tools"}
        return json.dumps(limits) if self._switches.budget_exhaustion else ""


@dataclass
class _Session:
    """The lab of a wrapper's calls, which are one episode."""

    lab: InProcessLab
    episode: BlockSubject
    logs: Path = field(default_factory=Path)

    def injected(self) -> Counter[str]:
        """Return how often each fault was injected."""
        file = history_file(self.logs, self.episode.run_id, "gateway", 0)
        events = read_file(file) if file.exists() else ()
        exchanges = [event for event in events if isinstance(event, Exchange)]
        return Counter(fault.kind for exchange in exchanges for fault in exchange.faults if fault.injected)


def _open(stack: ExitStack, seed: int, entries: list[dict[str, Any]], budgets: str) -> _Session:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wirefault-wrapper-")))
    paths = {"STATE_DB": "state.db", "EFFECTS_DB": "effects.db", "LOGS_DIR": "logs"}
    environ = {**os.environ, **{name: str(folder / path) for name, path in paths.items()}}
    wiring = build_wiring(SpecFile("Wrapper", {"links": {FUNCTIONS_NAME: {"upstream": "python"}}}), folder)
    settings = {
        "seed": seed,
        "faults": json.dumps({"faults": entries}) if entries else "",
        "toxic_prob": 0,
        "error_prob": 0,
        "budgets": budgets,
    }
    configuration = load_configuration(environ, settings, wiring, from_surroundings=False)
    choice = choose_toxiproxy("embedded", configuration.environ)
    lab = stack.enter_context(InProcessLab(configuration, choice))
    episode = stack.enter_context(
        lab.episode(Prompt("calls", "calls of the wrapped object"), configuration.settings)
    )
    return _Session(lab, episode, folder / "logs")


def _checked_level(level: float) -> float:
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 <= level <= MAX_CHAOS_LEVEL:
        raise InputError(f"level: must be a number from 0 to {MAX_CHAOS_LEVEL:g}, not {level!r}")
    return float(level)


def _tool(wrapped: object, name: str) -> Callable[..., Any]:
    """Return the tool: from ``tools``, a mapping or a list, else the method. Raises ``InputError``."""
    named = dict(_named_tools(wrapped))
    if name in named:
        return named[name]
    method = None if name.startswith("_") else getattr(wrapped, name, None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    methods = [each for each in dir(wrapped) if not each.startswith("_") and callable(getattr(wrapped, each))]
    raise InputError(f"unknown tool {name!r}{nearest(name, [*named, *methods])}")


def _named_tools(wrapped: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    tools = getattr(wrapped, "tools", None)
    if isinstance(tools, Mapping):
        yield from ((str(name), each) for name, each in tools.items() if callable(each))
    elif isinstance(tools, (list, tuple)):
        for each in tools:
            name = getattr(each, "name", None) or getattr(each, "__name__", "")
            run = _invoked(each) or (each if callable(each) else getattr(each, "run", None))
            if name and callable(run):
                yield str(name), run


def _invoked(tool: Any) -> Callable[..., Any] | None:
    """Return a call of a LangChain tool, which takes its arguments as one mapping; None for any other."""
    invoke = getattr(tool, "invoke", None)
    if not callable(invoke):
        return None
    return lambda *args, **kwargs: invoke(args[0] if args else kwargs)


def _tools_of_crew(crew: object) -> Iterator[object]:
    owners = [crew, *(getattr(crew, "agents", None) or ()), *(getattr(crew, "tasks", None) or ())]
    seen: set[int] = set()
    for owner in owners:
        for tool in getattr(owner, "tools", None) or ():
            if id(tool) not in seen:
                seen.add(id(tool))
                yield tool


def _mark_tool(tool: Any) -> None:
    """Mark the function that a tool's object holds, else its method, in this object alone."""
    name = "func" if callable(getattr(tool, "func", None)) else "_run"
    vars(tool)[name] = marked(getattr(tool, name), str(tool.name))
