"""Configuration of the whole test suite."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support import ROOT, THIRD, examples

# Shells without job control start background jobs with SIGINT ignored, and children inherit that; tests of
# Ctrl-C would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_counted = subprocess.run(
    ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"], capture_output=True, text=True
)
os.environ.setdefault(THIRD, str(int(_counted.stdout or 0) % 3))  # 0 outside of a clone

calm = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("lab", calm)
settings.register_profile("fast", calm, max_examples=10)
settings.load_profile("lab")

# Folders whose tests start labs or containers, build wheels or wait for toxics. Elsewhere tests are marked.
SLOW_FOLDERS = {"compose", "conformance", "e2e", "examples", "frameworks", "lab", "package"}
_PR_SET_PDEATHSIG = 1
LONG_S = 600.0
_started_processes = pytest.StashKey[list[str]]()

# Files that share a lab, an installation or imports: one worker runs such a group.
_GROUPS = {
    "compose/test_{}.py": {
        "compose-one": "first_up folders readme_lines settings when_disturbed",
        "compose-two": "conversation isolation kill reach recovery remover secrets subject ui versions",
    },
    "package/test_{}.py": {
        "package-core": "core_alone foreign_agents",
        "package-installed": "contents installed",
    },
    "e2e/test_{}.py": {  # the lab of tests/e2e/conftest.py
        "lab-one": "cassettes dose fault_sets files_page history_size ledger model_faults outages outcomes"
        " streams",
        "lab-two": "kept_alive personas real_toxiproxy recomputed recovery remarks reproducible secrets"
        " tampering version handoffs lab_conversations whose_fault recovery_prices",
    },
    # importing the official clients takes seconds
    "{}.py": {
        "official-clients": "dialects/test_round_trip faults/catalogue/context/test_clients"
        " faults/catalogue/model/test_clients model_server/test_sdks"
    },
}
GROUPS = {
    f"tests/{path.format(name)}": group
    for path, groups in _GROUPS.items()
    for group, names in groups.items()
    for name in names.split()
}
# These start in this order, before all others, since a run cannot end before its longest group. CI prints how
# long each took.
LONGEST = (
    *("compose-one", "compose-two", "tests/e2e/test_pages.py", "package-core"),
    *("tests/e2e/test_one_policy.py", "tests/audit/test_audit.py", "tests/package/test_action.py"),
    "tests/examples/test_presets.py",
    *("package-installed", "tests/e2e/test_experiments.py", "lab-two", "tests/frameworks/test_exec.py"),
    *("tests/e2e/test_exec.py", "tests/audit/test_hardened.py", "lab-one"),
)


def _end_with_make() -> None:
    """Take the end of make's shell as Ctrl-C, of which xdist's workers get one, too.

    Only below make: elsewhere the parent may be a thread that ends before its process.
    """
    if "MAKELEVEL" not in os.environ or sys.platform != "linux":
        return

    def end(*_: object) -> None:
        for child in Path("/proc/self/task").glob("*/children"):
            for worker in child.read_text(encoding="ascii").split():
                os.kill(int(worker), signal.SIGINT)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    parent = Path("/proc", str(os.getppid()))
    try:
        # make's own group, or a test's process that began a new one
        is_below = os.getpgid(os.getppid()) == os.getpgrp()
        is_below = is_below or b"\0MAKELEVEL=" in b"\0" + (parent / "environ").read_bytes()
    except OSError:  # init's, or gone
        is_below = False
    if not is_below:  # the shell ended before the request
        os.kill(os.getpid(), signal.SIGTERM)


def pytest_configure(config: pytest.Config) -> None:
    """Record started processes, and keep launchers' records out of the user's private folder."""
    _end_with_make()
    config.pluginmanager.register(InternalErrors())
    private = tempfile.TemporaryDirectory(prefix="wirefault-tests-")
    os.environ["XDG_STATE_HOME"] = private.name
    os.environ["WIREFAULT_DUEL"] = "false"  # most demos here are about something else
    config.add_cleanup(private.cleanup)
    started = config.stash[_started_processes] = []

    def record(event: str, arguments: tuple[object, ...]) -> None:
        # the standard library runs `uname` once, in the first test that asks for the processor
        if event == "subprocess.Popen" and arguments[0] != "uname":
            started.append(str(arguments[0]))

    sys.addaudithook(record)


class InternalErrors:
    """Fails a run in which a hook of a worker failed: xdist 3.8 prints the error and exits with 0."""

    happened = False

    def pytest_internalerror(self) -> None:
        self.happened = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.happened:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def worker_group(test: str) -> str:
    """The group of a test; one worker runs a whole group, because its tests share a fixture.

    A file is a group, unless ``GROUPS`` names another one. So is ``tests/conformance`` if it runs against one
    external server.
    """
    file = test.partition("::")[0]
    if "TOXIPROXY_CONFORMANCE_URL" in os.environ and file.startswith("tests/conformance/"):
        return "conformance"
    return GROUPS.get(file, file)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a whole group of tests to one worker. xdist 3.8 ignores ``xdist_group`` under pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return worker_group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # groups start in the order of their tests, the longest first
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests and start them first, so that quick files fill the gaps between workers."""
    for item in items:
        if _folder(item) in SLOW_FOLDERS:
            item.add_marker("slow")
    items.sort(key=_rank)


def _folder(item: pytest.Item) -> str:
    return item.nodeid.split("/", 2)[1]


def _rank(item: pytest.Item) -> int:
    if (group := worker_group(item.nodeid)) in LONGEST:
        return LONGEST.index(group) - len(LONGEST)
    return 0 if item.get_closest_marker("slow") else 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the groups that took longest in a long run: it cannot end before the longest one."""
    took = Counter[str]()
    for report in itertools.chain(*terminalreporter.stats.values()):
        took[worker_group(getattr(report, "nodeid", ""))] += getattr(report, "duration", 0.0)
    if took.total() > LONG_S:
        longest = ", ".join(f"{group} {seconds:.0f} s" for group, seconds in took.most_common(20))
        terminalreporter.write_line(f"longest groups, which one worker runs: {longest}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that starts a process without the slow mark, so that ``make test-fast`` stays fast."""
    started = item.config.stash[_started_processes]
    started.clear()
    yield
    if started and not item.get_closest_marker("slow"):
        pytest.fail(f"starts processes ({', '.join(started)}): mark it with pytest.mark.slow")
