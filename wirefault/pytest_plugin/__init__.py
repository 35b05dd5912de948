"""The pytest plug-in: tests whose code under test meets faults on its own connections.

    @pytest.mark.wirefault(faults="lost-replies")
    def test_order_survives():
        order_two_mugs()

pytest imports this module at every start, so it imports nothing else of the library until a test uses it.
"""

from __future__ import annotations

import secrets
import sys
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.unittest import TestCaseFunction

if TYPE_CHECKING:
    from wirefault.experiments.report import ExperimentReport
    from wirefault.pytest_plugin.fixture import Wirefault
    from wirefault.pytest_plugin.session import MarkedTests

MARKER = "wirefault"
MAX_REPEATS = 10_000
_MAX_SEED = 2**31 - 1
_REPETITION = "_wirefault_repetition"
_MARKER_HELP = (
    "wirefault(faults=SET, repeats=N, expect=RULES, allow=RULES, paid=False): run the test as an episode"
    " under these faults; findings fail it, and so does a fault that never arrived"
)
# name, what it takes, help
_OPTIONS = (
    ("seed", "N", "seed of every draw; random by default, and printed"),
    ("repeats", "N", "run each marked test N times, with its own draws; a marker's `repeats` comes first"),
    ("faults", "SET", "use this fault set instead of the markers'"),
    ("wiring", "FILE", "a wiring with named links; by default all connections of the tests are intercepted"),
    ("models", "WHO", "who answers for model providers: own (default) or scripted"),
    ("toxiproxy", "WHICH", "auto (default), embedded, or a server's URL"),
)
# packages whose tools are marked; frameworks.py of subjects/functions has the hooks
FRAMEWORKS = frozenset(
    (
        "langchain_core",
        "agents",
        "pydantic_ai",
        "crewai",
        "llama_index",
        "autogen_core",
        "smolagents",
        "strands",
    )
)
_tests = pytest.StashKey["MarkedTests"]()
_seed = pytest.StashKey[int]()
_configs: list[pytest.Config] = []  # the last is the session's; an outer one runs this one with pytester


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options, each also as a setting of the configuration file."""
    group = parser.getgroup("wirefault", "faults on the connections of marked tests (wirefault)")
    for name, metavar, text in _OPTIONS:
        group.addoption(f"--wirefault-{name}", dest=f"wirefault_{name}", metavar=metavar, help=text)
        parser.addini(f"wirefault_{name}", text, default="")
    paid = "run marked tests that call a model provider with a key, which costs money"
    group.addoption("--wirefault-paid", dest="wirefault_paid", action="store_true", default=None, help=paid)
    parser.addini("wirefault_paid", paid, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and check the numbers among the options."""
    config.addinivalue_line("markers", _MARKER_HELP)
    whole_number(config, "seed", 0, _MAX_SEED)
    whole_number(config, "repeats", 1, MAX_REPEATS)
    _configs.append(config)
    config.add_cleanup(lambda: _configs.remove(config))
    if not any(isinstance(finder, _FrameworkFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FrameworkFinder())


class _FrameworkFinder(MetaPathFinder):
    """Marks the tools of frameworks that tests import; it imports the hooks with the first of them."""

    _watcher: MetaPathFinder | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec with a hook, for a module that has one."""
        if fullname.partition(".")[0] not in FRAMEWORKS:
            return None
        if self._watcher is None:
            from wirefault.subjects.functions.frameworks import Watcher

            self._watcher = Watcher()
        return self._watcher.find_spec(fullname, path, target)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Give the workers of pytest-xdist the seed of this session."""
    node.workerinput["wirefault_seed"] = session_seed(node.config)  # type: ignore[attr-defined]


def option(config: pytest.Config, name: str) -> str:
    """The option, else the setting of the configuration file, else empty."""
    value = config.getoption(f"wirefault_{name}")
    return str(config.getini(f"wirefault_{name}") if value is None else value)


def whole_number(config: pytest.Config, name: str, minimum: int, maximum: int) -> int | None:
    """The option as a whole number; None without one."""
    text = option(config, name)
    if not text:
        return None
    if not text.isdecimal() or not minimum <= int(text) <= maximum:
        raise pytest.UsageError(
            f"--wirefault-{name}: must be a whole number from {minimum} to {maximum}, not {text!r}"
        )
    return int(text)


def repeats_of(config: pytest.Config, marker: pytest.Mark) -> Any:
    """The marker's ``repeats``, which may be anything, else the option's, else 1."""
    return marker.kwargs.get("repeats") or whole_number(config, "repeats", 1, MAX_REPEATS) or 1


def session_seed(config: pytest.Config) -> int:
    """The seed of the session: the option's, the one of pytest-xdist's controller, or a new one."""
    if _seed not in config.stash:
        handed = getattr(config, "workerinput", {}).get("wirefault_seed")
        named = whole_number(config, "seed", 0, _MAX_SEED)
        config.stash[_seed] = next(
            s for s in (handed, named, secrets.randbelow(_MAX_SEED + 1)) if s is not None
        )
    return config.stash[_seed]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Let each marked test use the fixture, so that it comes before the test's own ones."""
    if not isinstance(collector, pytest.Module | pytest.Class):
        return
    functions: list[Any] = [obj] if collector.istestfunction(obj, name) else []
    outer = collector.get_closest_marker(MARKER) is not None
    if isinstance(obj, type) and issubclass(obj, unittest.TestCase):  # pytest asks only about the class
        functions = [getattr(obj, each) for each in unittest.defaultTestLoader.getTestCaseNames(obj)]
        outer = outer or any(_is_marked(vars(base)) for base in obj.__mro__)
    for function in functions:
        if outer or _is_marked(getattr(function, "__dict__", {})):
            pytest.mark.usefixtures("wirefault")(function)


def _is_marked(names: Mapping[str, Any]) -> bool:
    own = names.get("pytestmark", ())
    return any(getattr(m, "name", "") == MARKER for m in (own if isinstance(own, list | tuple) else (own,)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each repetition, so that each has its own fixtures and its own line."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    repeats = repeats_of(metafunc.config, marker)
    if isinstance(repeats, int) and repeats > 1:  # anything else is an error when the test runs
        metafunc.fixturenames.append(_REPETITION)
        numbers = range(1, repeats + 1)
        metafunc.parametrize(_REPETITION, numbers, indirect=True, ids=[f"repeat{n}" for n in numbers])


@pytest.fixture
def _wirefault_repetition(request: pytest.FixtureRequest) -> int:
    """The number of the repetition, from 1."""
    number: int = request.param
    return number


@pytest.fixture(scope="session")
def wirefault_links() -> dict[str, object]:
    """Names of servers, for fault sets and draws: override it to return their addresses by name."""
    return {}


@pytest.fixture
def wirefault(request: pytest.FixtureRequest, wirefault_links: object) -> Iterator[Wirefault]:
    """The lab, for this test, with its addresses.

    Connections that this process opens while a test has it go through the lab.
    """
    with _marked_tests(request.config).fixture(request.node, wirefault_links) as fixture:
        yield fixture


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a marked test as an episode."""
    if item.get_closest_marker(MARKER) is None:
        return (yield)
    with _marked_tests(item.config).episode(item):
        result = yield
        if isinstance(item, TestCaseFunction) and item._excinfo:
            raise item._excinfo[0].value  # unittest keeps it back; the test's own report shows it
        return result


def _marked_tests(config: pytest.Config) -> MarkedTests:
    """The marked tests of this process, with their lab."""
    if _tests not in config.stash:
        from wirefault.pytest_plugin.session import MarkedTests

        config.stash[_tests] = MarkedTests(config)
        config.add_cleanup(config.stash[_tests].close)
    return config.stash[_tests]


def assert_survives(
    agent: Callable[..., object],
    *,
    prompts: Sequence[object],
    faults: object = "",
    checks: object = (),
    repeats: int = 1,
    allow: object = (),
    expect: object = (),
) -> ExperimentReport:
    """Run an experiment on the agent in the lab of the tests: fail unless it is held, as a marked test would.

    The agent is called with each prompt without faults, with them, and without them again. It is a function,
    a class or an object, as the subject of ``wirefault.Experiment``. ``prompts`` are texts or entries of a
    prompts file; the other arguments are the marker's. An exception is the agent's crash, and its result is
    its answer.
    """
    from wirefault.pytest_plugin.survives import survive

    if not _configs:
        raise RuntimeError("assert_survives: call it in a test that pytest runs, with the plug-in wirefault")
    named = {"faults": faults, "checks": checks, "repeats": repeats, "allow": allow, "expect": expect}
    return survive(_marked_tests(_configs[-1]), agent, prompts, named)


def _reports(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """The reports of the session's episodes."""
    return [
        report
        for group in reporter.stats.values()
        for report in group
        if any(name == "wirefault_verdict" for name, _ in getattr(report, "user_properties", ()))
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the session if no repetition of a test met a fault, although the others only skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, pytest.TerminalReporter) or exitstatus != pytest.ExitCode.OK:
        return
    if reports := _reports(reporter):
        from wirefault.pytest_plugin.section import never_drawn

        if never_drawn(reports):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the section with the findings and how to repeat them."""
    if reports := _reports(terminalreporter):
        from wirefault.pytest_plugin.section import write_section

        write_section(terminalreporter, reports)
