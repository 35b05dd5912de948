"""``python -P python_worker.py CHANNEL FOLDER MODULE CALLABLE``: the process of a Python subject.

Takes prompts from the socket ``CHANNEL`` and answers there, one JSON object a line; standard output is the
subject's. Coroutines share one event loop, so that a client may live as long as the process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from wirefault.judging.metrics import Metrics


# how an object that cannot be called itself is usually called
METHODS = ("run", "invoke", "ask", "chat")


@dataclass(frozen=True)
class PythonContext:
    """The attempt, for a callable with a parameter ``context`` or a second required one."""

    run: str
    episode: str
    attempt: int
    conversation: str
    # of the conversation, from 1
    turn: int
    # identify the attempt in requests
    headers: Mapping[str, str]
    # addresses by link
    links: Mapping[str, str]
    # when the attempt began, in seconds since the epoch
    started: float = 0.0
    # the gateway's history of the run
    gateway: str = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.time() - self.started

    @property
    def metrics(self) -> Metrics:
        """Calls, tokens, times and faults of the attempt so far."""
        from wirefault.judging.metrics import metrics_so_far

        return metrics_so_far(Path(self.gateway), self.episode, self.attempt)


def main() -> None:
    channel, folder, module, name = sys.argv[1:]
    for output in (sys.stdout, sys.stderr):
        output.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # output belongs to its attempt
    library = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, library)  # only for the imports below
    from wirefault.core.errors import nearest
    from wirefault.subjects.results import crash_result

    sys.path.remove(library)
    sys.path.insert(0, folder)
    with socket.socket(fileno=int(channel)) as connection, asyncio.Runner() as runner:
        lines = connection.makefile("rb")

        def send(**message: Any) -> None:
            connection.sendall(json.dumps(message).encode() + b"\n")

        try:
            imported = import_module(module)
        except Exception as error:  # noqa: BLE001 - the user's module may raise anything
            traceback.print_exc()
            send(problem=f"{module} cannot be imported: {type(error).__name__}: {error}")
            return
        subject = getattr(imported, name, None)
        function = None if inspect.isclass(subject) else callable_of(subject)
        if function is None and not inspect.isclass(subject):
            callables = [known for known, value in vars(imported).items() if callable(value)]
            send(problem=f"{module} has no function {name}{nearest(name, callables)}")
            return
        send(ready=True)
        attempt = ("", 0)
        for line in lines:
            request = json.loads(line)
            context = PythonContext(**request["context"])
            try:
                if inspect.isclass(subject) and attempt != (context.episode, context.attempt):
                    function = callable_of(subject())
                    attempt = (context.episode, context.attempt)
                if function is None:
                    raise TypeError(f"{name} has none of the methods __call__, {', '.join(METHODS)}")
                send(answer=_answer(function, request["prompt"], context, runner))
            except Exception as error:  # noqa: BLE001 - any exception is its crash
                traceback.print_exc()
                crash = crash_result(error)
                send(error_type=crash.error_type, error=crash.error, error_class=crash.error_class)


def callable_of(subject: Any) -> Callable[..., Any] | None:
    """Return the object, or the method by which such an object is usually called; None without one."""
    if callable(subject):
        return cast(Callable[..., Any], subject)
    return next(filter(callable, (getattr(subject, name, None) for name in METHODS)), None)


def _answer(function: Callable[..., Any], prompt: str, context: PythonContext, runner: asyncio.Runner) -> Any:
    answer = function(prompt, **context_argument(function, context))
    return runner.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer


def context_argument(function: Callable[..., Any], context: PythonContext) -> dict[str, PythonContext]:
    """Return the context if the callable has a parameter for it."""
    try:
        _, *others = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin without a signature, or no parameter
        return {}
    for parameter in others:
        needed = parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if parameter.name == "context" or needed:
            return {parameter.name: context}
    return {}


if __name__ == "__main__":
    main()
