"""For all tests."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.side_by_side import SideBySide
from tests.support import examples

# A job in the background of a shell without job control is started with SIGINT ignored, and so is what it
# starts: the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# how long something takes is the machine's affair, and no test's
calm = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("lab", calm)
settings.register_profile("fast", calm, max_examples=10)
settings.load_profile("lab")

# whose tests start labs, containers or wheels, or wait for toxics; elsewhere a file or a test is marked
SLOW_FOLDERS = {"compose", "conformance", "e2e", "examples", "frameworks", "lab", "package"}
LONGEST_FIRST = ("compose", "frameworks", "examples", "e2e", "lab", "package")
_started = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="how many run tests side by side")


def pytest_configure(config: pytest.Config) -> None:
    """Notes the processes that are started, and keeps what launchers record out of the user's own folder."""
    config.pluginmanager.register(SideBySide(config.getoption("processes"), group_of))
    private = tempfile.TemporaryDirectory(prefix="wirefault-tests-")
    os.environ["XDG_STATE_HOME"] = private.name
    config.add_cleanup(private.cleanup)
    started = config.stash[_started] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        # the standard library asks `uname` which processor this is, once, in whichever test comes first
        if event == "subprocess.Popen" and arguments[0] != "uname":
            started.append(str(arguments[0]))

    sys.addaudithook(note)


# Their tests share a lab, the `hangar` of tests/e2e/conftest.py: one for each worker would cost a start each,
# and a fiftieth of a processor while it stands idle. They wait the longest of all, so they begin first; in
# two groups, of which one waits about as long as the other.
_LABS = {
    "one": "cassettes dose fault_sets files_page history_size ledger model_faults outages outcomes streams",
    "two": "kept_alive personas real_toxiproxy recomputed remarks reproducible secrets tampering whose_fault",
}
IN_ONE_LAB = {
    f"tests/e2e/test_{name}.py": f"tests/e2e/ in lab {lab}"
    for lab, names in _LABS.items()
    for name in names.split()
}


# They call models by the official clients, whose imports take seconds of a processor: one worker has all.
WITH_OFFICIAL_CLIENTS = (
    "tests/dialects/test_round_trip.py",
    "tests/faults/catalogue/context/test_clients.py",
    "tests/faults/catalogue/model/test_clients.py",
    "tests/model_server/test_sdks.py",
)


def group_of(test: str) -> str:
    """One process runs the tests of a file, which share what it sets up.

    One runs all of ``tests/compose``, which share a lab, and one all of ``tests/conformance`` if they share a
    server that was given: one of them resets it. One runs all that fly in a shared lab of ``tests/e2e``.
    One runs all of ``tests/package``, which share a wheel and what it is installed into.
    """
    given = os.environ.get("TOXIPROXY_CONFORMANCE_URL")
    file = test.partition("::")[0]
    if lab := IN_ONE_LAB.get(file):
        return lab
    if file in WITH_OFFICIAL_CLIENTS:
        return "with official clients"
    shared = ("tests/compose/", "tests/package/", *(["tests/conformance/"] if given else []))
    return next((folder for folder in shared if test.startswith(folder)), file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Looks for no garbage while tests are read, nor among them afterwards: forked processes share them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow, and lets it begin first: the quick files then fill the gaps between workers."""
    for item in items:
        if _folder(item) in SLOW_FOLDERS:
            item.add_marker("slow")
    items.sort(key=_rank)


def _folder(item: pytest.Item) -> str:
    return item.nodeid.split("/", 2)[1]


def _rank(item: pytest.Item) -> int:
    if item.nodeid.partition("::")[0] in IN_ONE_LAB:
        return -len(LONGEST_FIRST) - 1
    if _folder(item) in LONGEST_FIRST:
        return LONGEST_FIRST.index(_folder(item)) - len(LONGEST_FIRST)
    return 0 if item.get_closest_marker("slow") else 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that starts a process and is not marked so: ``make test-fast`` is to stay fast."""
    started = item.config.stash[_started]
    started.clear()
    yield
    if started and not item.get_closest_marker("slow"):
        pytest.fail(f"it starts processes ({', '.join(started)}): mark it with pytest.mark.slow")
