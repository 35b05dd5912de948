"""Functions of a user's own that files name: ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

_NAME = re.compile(r"(.+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*")


def checked_function_name(name: str) -> str:
    """The same, if it can name a function; else raises ``ValueError``."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"must be module:function or file.py:function, not {name!r:.60}")
    return name


def located_function(name: str, folder: Path) -> str:
    """The name, a file in it looked for in that folder, so that it is found from any other folder, too."""
    return str((folder / name).absolute()) if ".py:" in name else name


def load_function(name: str) -> Callable[..., object]:
    """The function. Modules are looked for in this folder first. Raises ``ValueError`` if there is none."""
    module_name, _, attribute = name.rpartition(":")
    try:
        of_file = module_name.endswith(".py")
        with redirect_stdout(sys.stderr):  # the standard output may be for a JSON object alone
            module = _module_of_file(Path(module_name)) if of_file else _module_named(module_name)
            function = getattr(module, attribute, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may do anything
        raise ValueError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise ValueError(f"{name}: there is no such function")
    return cast(Callable[..., object], function)


def name_of_function(function: Callable[..., Any]) -> str:
    """By which a file names it. Raises ``ValueError`` for one that cannot be found again by a name."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not isinstance(function, FunctionType) or not str(name).isidentifier() or module == "__main__":
        raise ValueError(
            f"must be a function at the top of a module that can be imported, not {function!r:.60}"
        )
    return f"{module}:{name}"


def _module_of_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"wirefault_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there while they are made
    spec.loader.exec_module(module)
    return module


def _module_named(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return import_module(name)
