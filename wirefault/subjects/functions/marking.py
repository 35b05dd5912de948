"""Marks functions as tools, so that a lab can break their calls."""

from __future__ import annotations

import ast
import contextvars
import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, overload

from .call import call_coroutine, call_function
from .values import MARK

_F = TypeVar("_F", bound=Callable[..., Any])
_FOLDER = f"{Path(__file__).parent}{os.sep}"


@overload
def tool(function: _F) -> _F: ...


@overload
def tool(*, writes: bool | None = None, name: str = "") -> Callable[[_F], _F]: ...


def tool(
    function: _F | None = None, *, writes: bool | None = None, name: str = ""
) -> _F | Callable[[_F], _F]:
    """Mark a function, a coroutine function or a method as a tool: inside a lab its calls can be broken.

    Outside a lab it is called as before. ``writes``: whether it changes something, so that carrying it out
    twice matters; by default it does, unless it has the name of a read or it sends requests. ``name``: the
    tool's name in the lab, by default the function's. The function always runs in its caller's own thread or
    task and context. A generator is broken at its call only.
    """
    if function is None:
        return lambda decorated: marked(decorated, name, writes=writes)
    return marked(function, name, writes=writes)


def marked(function: _F, name: str = "", *, writes: bool | None = None) -> _F:
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
    return hasattr(function, MARK)


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
            return call_function(method, str(self.name), (self, *args), kwargs, writes=None)
        finally:
            _calling.reset(token)

    async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        calling = _calling.get()
        if id(self) in calling:
            return await method(self, *args, **kwargs)
        token = _calling.set((*calling, id(self)))
        try:
            return await call_coroutine(method, str(self.name), (self, *args), kwargs, writes=None)
        finally:
            _calling.reset(token)

    return _of_same_kind(method, call, call_async)


def _of_same_kind(function: _F, call: Callable[..., Any], call_async: Callable[..., Any]) -> _F:
    """Return one of the two as what the function is: frameworks ask for that kind."""
    if inspect.isasyncgenfunction(function):
        wrapper = _wrapper(_ASYNC_GENERATOR, function, call)
    elif inspect.isgeneratorfunction(function):
        wrapper = _wrapper(_GENERATOR, function, call)
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with a coroutine as its call
    ):
        wrapper = _wrapper(_COROUTINE, function, call_async)
    else:
        wrapper = _wrapper(_FUNCTION, function, call)
    functools.update_wrapper(wrapper, function)
    setattr(wrapper, MARK, True)
    return wrapper  # type: ignore[return-value]


_FUNCTION = """
def function(*args, **kwargs):
    try:
        return call(*args, **kwargs)
    except BaseException as error:
        raise without_lab(error)
"""
_GENERATOR = _FUNCTION.replace("return call", "yield from call")
_COROUTINE = _FUNCTION.replace("def", "async def").replace("return call", "return await call")
_ASYNC_GENERATOR = """
async def function(*args, **kwargs):
    try:
        async for item in call(*args, **kwargs):
            yield item
    except BaseException as error:
        raise without_lab(error)
"""


def _wrapper(source: str, function: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the wrapper as if it were the first line of the function.

    Python adds the frame that raises an exception to its traceback. So that a traceback in the subject shows
    no frame of the lab, this frame has the name, the file and the line of the function.
    """
    code = getattr(function, "__code__", None) or call.__code__
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler)):
            node.lineno = node.end_lineno = code.co_firstlineno
            node.col_offset = node.end_col_offset = -1
    scope: dict[str, Any] = {"call": call, "without_lab": _without_lab}
    exec(compile(tree, code.co_filename, "exec"), scope)
    wrapper: FunctionType = scope["function"]
    wrapper.__code__ = wrapper.__code__.replace(co_name=code.co_name)
    return wrapper


def _without_lab(error: BaseException) -> BaseException:
    """The error without the first frames of its traceback: the wrapper's, which Python adds again, and all
    of this package's."""
    traceback = error.__traceback__.tb_next if error.__traceback__ is not None else None
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_FOLDER):
        traceback = traceback.tb_next
    return error.with_traceback(traceback)
