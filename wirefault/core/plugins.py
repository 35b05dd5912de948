"""Plug-ins of installed packages, listed by their entry points and loaded on first use."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wirefault.core.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_T = TypeVar("_T")


class PluginError(InputError):
    """An unusable entry point; the message names its package and says what to do."""


@dataclass(frozen=True)
class Plugin:
    """An entry point; ``package`` is the name and version of its distribution."""

    name: str
    package: str
    entry_point: EntryPoint

    def load(self) -> object:
        """Import the object that the entry point names. Raises ``PluginError``."""
        try:
            return self.entry_point.load()
        except Exception as error:  # a foreign module may raise anything
            raise self.error(f"cannot be loaded: {type(error).__name__}: {error}") from error

    def error(self, problem: str) -> PluginError:
        """Return an error that states ``problem``, the entry point and its package."""
        where = f"{self.entry_point.group}: {self.name} = {self.entry_point.value}"
        return PluginError(f"{self.package} ({where}) {problem}; fix or uninstall that package")


def find_plugins(group: str, own: Mapping[str, object] | None = None) -> Mapping[str, Plugin]:
    """Return the entry points of that group by name, without importing them.

    Raises ``PluginError`` for a name that is in ``own`` or that two packages define.
    """
    from importlib.metadata import entry_points  # takes 15 ms to import

    plugins: dict[str, Plugin] = {}
    for entry_point in entry_points(group=group):
        distribution = entry_point.dist
        package = f"package {distribution.name} {distribution.version}" if distribution else "a package"
        plugin = Plugin(entry_point.name, package, entry_point)
        if own is not None and plugin.name in own:
            raise plugin.error("has a name that Wirefault uses itself")
        if plugin.name in plugins and plugins[plugin.name] != plugin:
            raise plugin.error(f"has the same name as one of {plugins[plugin.name].package}")
        plugins[plugin.name] = plugin
    return plugins


class WithPlugins(Mapping[str, _T], Generic[_T]):
    """Wirefault's ``own`` items by name, in order, then the items of installed packages.

    ``load_own`` is called once, on first access. ``checked`` returns the loaded object of an entry point, or
    raises ``TypeError`` with the required form. Every access may raise ``PluginError``.
    """

    def __init__(
        self, group: str, load_own: Callable[[], Mapping[str, _T]], checked: Callable[[str, object], _T]
    ) -> None:
        self._group = group
        self._load_own = load_own
        self._checked = checked
        self._loaded: dict[str, _T] = {}

    @cached_property
    def own(self) -> dict[str, _T]:
        return dict(self._load_own())

    @cached_property
    def _plugins(self) -> Mapping[str, Plugin]:
        return find_plugins(self._group, self.own)

    def package_of(self, name: str) -> str:
        """Return the package that defines the name; empty for Wirefault's own items."""
        return self._plugins[name].package if name in self._plugins else ""

    def __getitem__(self, name: str) -> _T:
        plugin = self._plugins.get(name)
        if plugin is None:
            return self.own[name]
        if name not in self._loaded:
            try:
                self._loaded[name] = self._checked(name, plugin.load())
            except TypeError as error:
                raise plugin.error(str(error)) from None
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self.own  # Mapping's default would load the item

    def __iter__(self) -> Iterator[str]:
        plugins = sorted(self._plugins)
        return iter([*self.own, *plugins])

    def __len__(self) -> int:
        return len(self._plugins) + len(self.own)


_NAME = re.compile(r"(.+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*")


def checked_function_name(name: str) -> str:
    """Return the name unchanged if it can name a function; otherwise raises ``ValueError``."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"must be module:function or file.py:function, not {name!r:.60}")
    return name


def located_function(name: str, folder: Path) -> str:
    """Return the name with a file relative to ``folder`` made absolute, so that it loads from any folder."""
    return str((folder / name).absolute()) if ".py:" in name else name


def load_function(name: str) -> Callable[..., object]:
    """Load the function; modules in the current folder come first. Raises ``ValueError`` if it is missing."""
    module_name, _, attribute = name.rpartition(":")
    try:
        of_file = module_name.endswith(".py")
        with redirect_stdout(sys.stderr):  # standard output may be reserved for one JSON object
            module = _file_module(Path(module_name)) if of_file else _module_named(module_name)
            function = getattr(module, attribute, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may do anything
        raise ValueError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise ValueError(f"{name}: unknown function")
    return cast(Callable[..., object], function)


def check_function(name: str) -> None:
    """Check by its source that the function exists; nothing of it runs. Raises ``ValueError`` otherwise.

    A module without Python source, such as an extension, is found but not searched.
    """
    module_name, _, attribute = name.rpartition(":")
    loaded = sys.modules.get(module_name)
    if loaded is not None:
        known = callable(getattr(loaded, attribute, None))
    else:
        try:
            source = _source(module_name)
            known = source is None or _defines(ast.parse(source), attribute)
        except (ImportError, OSError, SyntaxError, ValueError, RecursionError) as error:
            raise ValueError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None
    if not known:
        raise ValueError(f"{name}: unknown function")


def _source(module_name: str) -> bytes | None:
    """Return the source of a file or a module; None for a module without one."""
    if module_name.endswith(".py"):
        return Path(module_name).read_bytes()
    place, path = _found_module(module_name)
    if place is None:
        return b"" if path is not None else None  # a folder without __init__.py
    return Path(place).read_bytes() if place.endswith(".py") else None


def _found_module(name: str) -> tuple[str | None, Sequence[str] | None]:
    """Return the module's file and the folders of its submodules. Unlike ``find_spec``, imports no parent."""
    parent, _, _ = name.rpartition(".")
    folders = _found_module(parent)[1] if parent else None
    if parent and folders is None:
        raise ModuleNotFoundError(f"No module named {name!r}; {parent!r} is not a package")
    before = list(sys.path)
    sys.path.insert(
        0, str(Path.cwd())
    )  # only while searching: a file here must not shadow what this process imports later
    try:
        spec = next((spec for each in sys.meta_path if (spec := each.find_spec(name, folders))), None)
    finally:
        sys.path[:] = before
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}")
    within = spec.submodule_search_locations
    return (spec.origin if spec.has_location else None), None if within is None else list(within)


def _defines(tree: ast.Module, name: str) -> bool:
    """Return whether the module binds the name, or may: by a star import or a ``__getattr__``."""
    names: set[str] = set()
    for node in _of_module(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
    return not names.isdisjoint((name, "*", "__getattr__"))


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the module's own scope."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _of_module(child)


_HERE = "wirefault_functions_of_this_process"


def name_here(function: Callable[..., Any]) -> str:
    """Return a name by which only this process can load the function, such as a lambda or a closure."""
    module = sys.modules.setdefault(_HERE, ModuleType(_HERE))
    known = next((name for name, value in vars(module).items() if value is function), "")
    if not known:
        label = re.sub(r"\W+", "_", getattr(function, "__name__", type(function).__name__)).strip("_")
        known = f"{label}_{len(vars(module))}"
        setattr(module, known, function)
    return f"{_HERE}:{known}"


def is_known_here(name: str) -> bool:
    """Whether the name is one of ``name_here``."""
    return name.startswith(f"{_HERE}:")


def any_function_name(function: Callable[..., Any]) -> str:
    """Return the function's name in its module, or else one that only this process can load."""
    try:
        return function_name(function)
    except ValueError:
        return name_here(function)


def function_name(function: Callable[..., Any]) -> str:
    """Return the name by which a file refers to the function.

    Raises ``ValueError`` if the function cannot be looked up by a name.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not isinstance(function, FunctionType) or not str(name).isidentifier() or module == "__main__":
        raise ValueError(f"must be a top-level function of an importable module, not {function!r:.60}")
    return f"{module}:{name}"


def _file_module(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"wirefault_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there during creation
    spec.loader.exec_module(module)
    return module


def _module_named(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return import_module(name)
