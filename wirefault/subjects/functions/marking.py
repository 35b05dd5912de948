"""Marks functions as tools, so that a lab can break their calls."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar, overload

from .call import call_coroutine, call_function

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__wirefault_tool__"


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
        return lambda decorated: marked(decorated, name, writes=writes)
    return marked(function, name, writes=writes)


def marked(function: _F, name: str = "", *, writes: bool = False) -> _F:
    """Return the function as a tool; unchanged if it is one already."""
    if is_marked(function):
        return function
    name = name or getattr(function, "__name__", type(function).__name__)

    def call(*args: Any, **kwargs: Any) -> Any:
        return call_function(function, name, args, kwargs, writes=writes)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await call_coroutine(function, name, args, kwargs, writes=writes)

    return _of_same_kind(function, call, call_async)


def is_marked(function: Any) -> bool:
    """Whether calls of it cross the lab already."""
    return hasattr(function, _MARK)


# the tools whose calls are in progress: a tool's method may call another of its marked methods
_calling: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar("wirefault_calling", default=())


def marked_method(method: _F) -> _F:
    """Return a method that carries out its object's tool, whose name is the object's ``name``."""
    if is_marked(method):
        return method

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        calling = _calling.get()
        if id(self) in calling:
            return method(self, *args, **kwargs)
        token = _calling.set((*calling, id(self)))
        try:
            return call_function(method, str(self.name), (self, *args), kwargs, writes=False)
        finally:
            _calling.reset(token)

    async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        calling = _calling.get()
        if id(self) in calling:
            return await method(self, *args, **kwargs)
        token = _calling.set((*calling, id(self)))
        try:
            return await call_coroutine(method, str(self.name), (self, *args), kwargs, writes=False)
        finally:
            _calling.reset(token)

    return _of_same_kind(method, call, call_async)


def _of_same_kind(function: _F, call: Callable[..., Any], call_async: Callable[..., Any]) -> _F:
    """Return one of the two as what the function is: frameworks ask for that kind."""
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        async def stream_async(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for item in call(*args, **kwargs):
                yield item

        wrapper = stream_async
    elif inspect.isgeneratorfunction(function):

        def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
            yield from call(*args, **kwargs)

        wrapper = stream
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with a coroutine as its call
    ):

        async def run_async(*args: Any, **kwargs: Any) -> Any:
            return await call_async(*args, **kwargs)

        wrapper = run_async
    else:

        def run(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        wrapper = run
    functools.update_wrapper(wrapper, function)
    setattr(wrapper, _MARK, True)
    return wrapper  # type: ignore[return-value]
