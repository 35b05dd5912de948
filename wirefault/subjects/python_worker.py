"""``python -P python_worker.py CHANNEL FOLDER MODULE CALLABLE``: the process that a Python subject works in.

It takes prompts from the socket ``CHANNEL`` and answers there, a JSON object a line; what the subject prints
is its own. Coroutines share one event loop, so that a client may live as long as the process.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PythonContext:
    """What a callable is told of its attempt, if it has a parameter ``context`` or a second one.

    ``turn`` counts the turns of a ``conversation`` from 1. ``headers`` are those by which a request says
    whose it is, ``links`` the address of each link by its name.
    """

    run: str
    episode: str
    attempt: int
    conversation: str
    turn: int
    headers: Mapping[str, str]
    links: Mapping[str, str]


def main() -> None:
    channel, folder, module, name = sys.argv[1:]
    for output in (sys.stdout, sys.stderr):
        output.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what it says belongs to its attempt
    library = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, library)  # for the imports below alone
    from wirefault.core.errors import nearest
    from wirefault.subjects.results import crash_of

    sys.path.remove(library)
    sys.path.insert(0, folder)
    with socket.socket(fileno=int(channel)) as connection, asyncio.Runner() as runner:
        lines = connection.makefile("rb")

        def tell(**said: Any) -> None:
            connection.sendall(json.dumps(said).encode() + b"\n")

        try:
            found = import_module(module)
        except Exception as error:  # noqa: BLE001 - a module of the user's may raise anything
            traceback.print_exc()
            tell(problem=f"{module} cannot be imported: {type(error).__name__}: {error}")
            return
        function = getattr(found, name, None)
        if not callable(function):
            callables = [known for known, value in vars(found).items() if callable(value)]
            tell(problem=f"{module} has no function {name}{nearest(name, callables)}")
            return
        tell(ready=True)
        for line in lines:
            asked = json.loads(line)
            try:
                tell(answer=_answer(function, asked["prompt"], PythonContext(**asked["context"]), runner))
            except Exception as error:  # noqa: BLE001 - whatever it raises is its crash
                traceback.print_exc()
                crash = crash_of(error)
                tell(error_type=crash.error_type, error=crash.error, error_class=crash.error_class)


def _answer(function: Callable[..., Any], prompt: str, context: PythonContext, runner: asyncio.Runner) -> Any:
    answer = function(prompt, **_more(function, context))
    return runner.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer


def _more(function: Callable[..., Any], context: PythonContext) -> dict[str, PythonContext]:
    """The context, for a callable that asks for it."""
    try:
        _, *others = inspect.signature(function).parameters.values()
    except ValueError:  # one that is built in does not tell, or it takes nothing
        return {}
    for parameter in others:
        needed = parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if parameter.name == "context" or needed:
            return {parameter.name: context}
    return {}


if __name__ == "__main__":
    main()
