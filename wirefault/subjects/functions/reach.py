"""Whether the code of a function may send HTTP requests, as far as it can be read without running it.

It follows the names that the code uses, through the user's own modules, closures and objects, to a known
HTTP client or to a package that imports one. It may err both ways: what a call then does decides about later
calls.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from .values import FRAMEWORKS, MARK

_CLIENTS = frozenset(
    (
        *("aiohttp", "h2", "http.client", "httpcore", "httplib2", "httpx", "pycurl", "requests", "treq"),
        *("tornado.httpclient", "urllib.request", "urllib3", "websocket", "websockets"),
    )
)
_SOCKETS = frozenset(("_socket", "_ssl", "asyncio.streams", "socket", "ssl"))
_LAB = ("wirefault", __name__.partition(".")[0])
_INSTALLED = ("site-packages", "dist-packages")
_STDLIB = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_MAX_OBJECTS = 2_000
_MAX_ITEMS = 50
_MAX_PACKAGES = 2  # from a package to one that imports a client
_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def may_send(function: Callable[..., Any], args: Sequence[Any] = ()) -> bool:
    """Whether a call of it may send requests. ``args``: of a method with its object first."""
    try:
        if function not in _known:
            _known[function] = any(map(_is_client, _objects(function, args)))
        return _known[function]
    except TypeError:  # no weak reference can be made to it
        return any(map(_is_client, _objects(function, args)))


def _objects(function: Any, args: Sequence[Any]) -> Iterator[Any]:
    """Everything that the code of the function uses, as far as it belongs to the user."""
    seen: dict[int, Any] = {}  # the objects, too: the id of one that is gone may be used again
    waiting: list[tuple[Any, frozenset[str]]] = [(function, frozenset())]
    waiting += [(arg, frozenset()) for arg in args[:1]]
    while waiting and len(seen) < _MAX_OBJECTS:
        value, names = waiting.pop()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None))):
            continue
        if not isinstance(value, ModuleType):  # a module is read for the names that each user uses
            seen[id(value)] = value
        yield value
        if isinstance(value, (list, tuple, dict, ModuleType)) or _is_own(value):
            waiting += _used(value, names)


def _used(value: Any, names: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """What it uses, with the names that are used of that."""
    own: list[Any] = []
    if isinstance(value, FunctionType) and hasattr(value, MARK):
        own.append(vars(value)["__wrapped__"])
    elif isinstance(value, FunctionType):
        names = frozenset(_names(value.__code__))
        own += [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        own += [value.__globals__[name] for name in names if name in value.__globals__]
        own += [sys.modules.get(name) or ModuleType(name) for name in _imported(value.__code__)]
    elif isinstance(value, MethodType):
        own += [value.__func__, value.__self__]
    elif isinstance(value, partial):
        own += [value.func, value.args, value.keywords]
    elif isinstance(value, ModuleType):
        own += [vars(value)[name] for name in names if name in vars(value)]
    elif isinstance(value, type):
        own += [*value.__bases__, *(getattr(each, "__func__", each) for each in vars(value).values())]
    elif isinstance(value, (list, tuple)):
        own += value[:_MAX_ITEMS]
    elif isinstance(value, dict):
        own += [value[key] for key in list(value)[:_MAX_ITEMS]]
    else:
        own += [type(value), *(list(_attributes(value).values())[:_MAX_ITEMS])]
    return ((each, names) for each in own)


def _names(code: CodeType) -> Iterator[str]:
    """The global names and attributes that the code uses."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _imported(code: CodeType) -> Iterator[str]:
    """The modules that it imports as it runs."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)
        elif isinstance(instruction.argval, CodeType):
            yield from _imported(instruction.argval)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _attributes(value: Any) -> Mapping[str, Any]:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _module_name(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, (FunctionType, type)):
        return str(value.__module__)
    return str(type(value).__module__)


def _is_own(value: Any) -> bool:
    """Whether it belongs to the user's code, which is read, and not to an installed package."""
    if isinstance(value, (MethodType, partial)):
        return True
    name = _module_name(value)
    path = None if name.partition(".")[0] in _LAB else _path_of(name)
    return path is not None and not any(name in path for name in _INSTALLED) and not path.startswith(_STDLIB)


def _path_of(name: str) -> str | None:
    """Where a module comes from; empty for the program's own text, None if it is built in or unknown."""
    module = sys.modules.get(name)
    if module is None or name in sys.builtin_module_names:
        return None
    return getattr(module, "__file__", None) or ("" if name == "__main__" else None)


def _is_client(value: Any) -> bool:
    name = _module_name(value)
    if _is_in(name, _CLIENTS) or _is_in(name, _SOCKETS):
        return True
    root = name.partition(".")[0]
    path = _path_of(name) or ""
    return any(part in path for part in _INSTALLED) and _imports_client(root, _MAX_PACKAGES, len(sys.modules))


def _is_in(name: str, modules: frozenset[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in modules for count in (1, 2))


@cache
def _imports_client(root: str, packages: int, modules: int) -> bool:
    """Whether a loaded module of an installed package, or a package that it imports, has an HTTP client among
    its names. ``modules``: the number of loaded modules, after which the answer may be another."""
    if root in FRAMEWORKS:
        return False
    imported = {
        value.__name__
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == root and isinstance(module, ModuleType)
        for value in list(vars(module).values())
        if isinstance(value, ModuleType)
    }
    if any(_is_in(name, _CLIENTS) for name in imported):
        return True
    others = {name.partition(".")[0] for name in imported} - {root}
    installed = (other for other in others if any(part in (_path_of(other) or "") for part in _INSTALLED))
    return packages > 1 and any(_imports_client(other, packages - 1, modules) for other in installed)
