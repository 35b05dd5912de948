"""Marks functions as tools, so that a lab can break their calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .call import call_coroutine, call_function

_F = TypeVar("_F", bound=Callable[..., Any])
MARK = "__wirefault_tool__"


@overload
def tool(function: _F) -> _F: ...


@overload
def tool(*, writes: bool = False, name: str = "") -> Callable[[_F], _F]: ...


def tool(function: _F | None = None, *, writes: bool = False, name: str = "") -> _F | Callable[[_F], _F]:
    """Mark a function, a coroutine function or a method as a tool: inside a lab its calls can be broken.

    Outside a lab it is called as before. ``writes``: it changes something, so that carrying it out twice
    matters. ``name``: the tool's name in the lab, by default the function's. The function always runs in its
    caller's own thread or task and context. A generator is broken at its call only.
    """
    if function is None:
        return lambda marked: _marked(marked, name or marked.__name__, writes)
    return _marked(function, name or function.__name__, writes)


def _marked(function: _F, name: str, writes: bool) -> _F:
    if is_marked(function):
        return function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await call_coroutine(function, name, args, kwargs, writes=writes)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return call_function(function, name, args, kwargs, writes=writes)

    setattr(wrapper, MARK, name)
    return wrapper  # type: ignore[return-value]


def is_marked(function: Any) -> bool:
    """Whether calls of it cross the lab already."""
    return hasattr(function, MARK)
