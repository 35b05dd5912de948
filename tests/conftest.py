"""For all tests."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A job in the background of a shell without job control is started with SIGINT ignored, and so is what it
# starts: the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# how long something takes is the machine's affair, and no test's
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("lab"), max_examples=10)
settings.load_profile("lab")

# whose tests start labs, containers or wheels, or wait for toxics; elsewhere a file or a test is marked
SLOW_FOLDERS = {"compose", "conformance", "e2e", "lab", "package"}
_started = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Notes the processes that are started."""
    started = config.stash[_started] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            started.append(str(arguments[0]))

    sys.addaudithook(note)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow, and keeps together what shares something when several workers run the tests.

    A file's tests share what the file sets up, and those of Compose one lab. The slow ones begin first: the
    quick ones then fill the gaps, and at the end no worker waits for another's long file.
    """
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in SLOW_FOLDERS:
            item.add_marker("slow")
        group = "compose" if item.get_closest_marker("compose") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Compose's single group takes longest of all."""
    return 0 if item.get_closest_marker("compose") else 1 if item.get_closest_marker("slow") else 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that starts a process and is not marked so: ``make test-fast`` is to stay fast."""
    started = item.config.stash[_started]
    started.clear()
    yield
    if started and not item.get_closest_marker("slow"):
        pytest.fail(f"it starts processes ({', '.join(started)}): mark it with pytest.mark.slow")
