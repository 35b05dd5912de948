"""For all tests."""

import gc
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support import ROOT, examples

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


def pytest_configure(config: pytest.Config) -> None:
    """Notes the processes that are started, and keeps what launchers record out of the user's own folder."""
    if "XDG_STATE_HOME" not in os.environ:  # xdist's workers have it from the process that started them
        private = tempfile.TemporaryDirectory(prefix="windtunnel-tests-")
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


class FileByFile(LoadFileScheduling):
    """One worker runs the tests of a file, which share what it sets up.

    One runs all of ``tests/compose``, which share a lab, and one all of ``tests/conformance`` if they share a
    server that was given: one of them resets it. One runs all that fly in a shared lab of ``tests/e2e``.
    One runs all of ``tests/package``, which share a wheel and what it is installed into.
    """

    def _split_scope(self, nodeid: str) -> str:
        given = os.environ.get("TOXIPROXY_CONFORMANCE_URL")
        file = nodeid.partition("::")[0]
        if lab := IN_ONE_LAB.get(file):
            return lab
        if file in WITH_OFFICIAL_CLIENTS:
            return "with official clients"
        shared = ("tests/compose/", "tests/package/", *(["tests/conformance/"] if given else []))
        return next((folder for folder in shared if nodeid.startswith(folder)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    return FileByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Looks for no garbage while tests are read, as each worker reads all, nor among them afterwards."""
    gc.disable()
    try:
        if "PYTEST_XDIST_WORKER" in os.environ and session.config.args == session.config.getini("testpaths"):
            _import_from_elsewhere_on()
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_from_elsewhere_on() -> None:
    """Each worker begins with other files: what one has compiled, the others read, and none waits for it.

    All would compile each file at the same time, the first time that tests are run.
    """
    worker, of = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    at = len(files) * worker // of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for file in files[at:] + files[:at]:
            with suppress(Exception):  # pytest itself meets it when it reads that file, and says it
                import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


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
