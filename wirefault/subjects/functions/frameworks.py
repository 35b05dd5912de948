"""Marks the tools of known frameworks once these are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


def _hooks() -> dict[str, Hook]:
    """Return the hooks by the module after whose import each is called."""
    return {}


class _Watcher(importlib.abc.MetaPathFinder):
    """Calls each hook once its module is imported."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        spec = importlib.util.find_spec(fullname) if path is None else None
        spec = spec or importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _HookedLoader(spec.loader, hook)
        return spec


class _HookedLoader(importlib.abc.Loader):
    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._hook(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def watch() -> None:
    """Mark the tools of each framework that is imported from now on."""
    sys.meta_path.insert(0, _Watcher(_hooks()))
