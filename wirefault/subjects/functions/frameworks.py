"""Marks the tools of known frameworks once these are imported.

A tool keeps its class, its schema and its signature: only the function that it calls is replaced. Tried with
the versions in ``VERSIONS``; a framework in which a name has changed is reported on standard error.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .marking import is_marked, marked, marked_method

Hook = Callable[[ModuleType], None]

VERSIONS = {
    "LangChain and LangGraph": "langchain-core 1.7",
    "OpenAI Agents": "openai-agents 0.24",
    "Pydantic AI": "pydantic-ai 2.68",
    "CrewAI": "crewai 1.15",
    "LlamaIndex": "llama-index-core 0.14",
    "AutoGen": "autogen-core 0.7",
    "smolagents": "smolagents 1.26",
    "Strands": "strands-agents 1.62",
}


def _langchain_base(module: ModuleType) -> None:
    _hook_subclasses(module.BaseTool, "langchain_core.", ("_run", "_arun"))


def _langchain_structured(module: ModuleType) -> None:
    _hook_attributes(module.StructuredTool, ("func", "coroutine"))


def _langchain_simple(module: ModuleType) -> None:
    _hook_attributes(module.Tool, ("func", "coroutine"))


def _openai_agents(module: ModuleType) -> None:
    original = module.function_tool

    @functools.wraps(original)
    def function_tool(func: Callable[..., Any] | None = None, **options: Any) -> Any:
        name = options.get("name_override") or ""
        if func is not None:
            return original(marked(func, name), **options)
        decorator = original(**options)
        return lambda real: decorator(marked(real, name))

    module.function_tool = function_tool  # type: ignore[attr-defined]


def _pydantic_ai(module: ModuleType) -> None:
    def mark(tool: Any) -> None:
        tool.function = tool.function_schema.function = marked(tool.function, tool.name)

    _after_init(module.Tool, mark)


def _crewai(module: ModuleType) -> None:
    _hook_subclasses(module.BaseTool, "crewai.", ("_run", "_arun"))
    _hook_attributes(module.Tool, ("func",))


def _llama_index(module: ModuleType) -> None:
    def mark(tool: Any) -> None:
        if not is_marked(tool._real_fn):
            name = tool.metadata.get_name()
            tool._fn, tool._async_fn = marked(tool._fn, name), marked(tool._async_fn, name)

    _after_init(module.FunctionTool, mark)


def _autogen(module: ModuleType) -> None:
    _hook_attributes(module.FunctionTool, ("_func",))


def _smolagents(module: ModuleType) -> None:
    module.Tool.__call__ = marked_method(module.Tool.__call__)


def _strands(module: ModuleType) -> None:
    def mark(tool: Any) -> None:
        tool._tool_func = marked(tool._tool_func, tool.tool_name)

    _after_init(module.DecoratedFunctionTool, mark)


_HOOKS: dict[str, Hook] = {
    "langchain_core.tools.base": _langchain_base,
    "langchain_core.tools.structured": _langchain_structured,
    "langchain_core.tools.simple": _langchain_simple,
    "agents.tool": _openai_agents,
    "pydantic_ai.tools": _pydantic_ai,
    "crewai.tools.base_tool": _crewai,
    "llama_index.core.tools.function_tool": _llama_index,
    "autogen_core.tools._function_tool": _autogen,
    "smolagents.tools": _smolagents,
    "strands.tools.decorator": _strands,
}


def _after_init(kind: Any, act: Callable[[Any], None]) -> None:
    """Call ``act`` with each new object of that class."""
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        act(self)

    kind.__init__ = __init__


def _hook_attributes(kind: Any, names: Sequence[str]) -> None:
    """Mark the functions that each new tool of that class holds under these names."""

    def mark(tool: Any) -> None:
        for name in names:
            function = getattr(tool, name)
            if callable(function):
                tool.__dict__[name] = marked(function, tool.name)

    if not hasattr(kind, "__init__"):
        raise AttributeError("__init__")
    _after_init(kind, mark)


def _hook_subclasses(kind: Any, own: str, names: Sequence[str]) -> None:
    """Mark these methods of each later subclass outside the framework's ``own`` modules."""
    original: Callable[..., None] = kind.__init_subclass__.__func__

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        original(cls, **kwargs)
        for name in names if not cls.__module__.startswith(own) else ():
            if name in cls.__dict__:
                setattr(cls, name, marked_method(cls.__dict__[name]))

    kind.__init_subclass__ = classmethod(__init_subclass__)


ROOTS = frozenset(name.partition(".")[0] for name in _HOOKS)
"""The packages that are watched for."""


class Watcher(importlib.abc.MetaPathFinder):
    """Calls each hook once its module is imported, and at once for a module that is already."""

    def __init__(self) -> None:
        self._hooks = dict(_HOOKS)
        for name in [name for name in self._hooks if name in sys.modules]:
            _call(self._hooks.pop(name), sys.modules[name])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _HookedLoader(spec.loader, hook)
                return spec
        return None


class _HookedLoader(importlib.abc.Loader):
    """Loads a module as its own loader does, then calls its hook."""

    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _call(self._hook, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _call(hook: Hook, module: ModuleType) -> None:
    try:
        hook(module)
    except Exception as error:  # noqa: BLE001 - another version: the subject must run as without the lab
        sys.stderr.write(
            f"wirefault: tools of {module.__name__.partition('.')[0]} are not broken, since this version"
            f" differs ({type(error).__name__}: {error}); mark them with @wirefault.tool\n"
        )


def watch() -> None:
    """Mark the tools that frameworks make from now on. A later call does nothing."""
    if not any(isinstance(finder, Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, Watcher())
