"""However a demo ends, it prints the reason, leaves no process and no partial history, and the next one
works.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.servers import embedded_server, real_server_path
from tests.lab.demos import CALM, SLOW, WAITING, Demo, Ended, processes
from wirefault.core.interrupts import KILLED_LINE
from wirefault.core.sockets import LOOPBACK, TOXIPROXY_PORT, Address, bind
from wirefault.history.events import EpisodeStarted
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import default_topology

PARTS = ("toxiproxy", "tools", "model", "gateway", "manager", "agent")
EndedDemos = dict[str, "Future[Ended]"]


def killed(part: str, folder: Path, number: int = signal.SIGKILL) -> Ended:
    with Demo(folder, *SLOW, subject=WAITING) as demo:
        demo.wait_until_in_an_attempt()
        demo.kill(part, number)
        return demo.end()


def parts(folder: Path) -> set[str]:
    """Processes of the lab, without the one from which ``tests/cli_process.py`` forks its run."""
    return processes(folder).keys() - {"fork server"}


def launcher_killed(folder: Path, path: str = "/usr/bin:/bin") -> Ended:
    with Demo(folder, *SLOW, path=path, subject=WAITING) as demo:
        demo.wait_until_in_an_attempt()
        assert parts(folder) == set(PARTS)
        demo.process.kill()
        return demo.end()


def interrupted_while_starting(folder: Path) -> Ended:
    with Demo(folder, *SLOW, subject=WAITING, fresh=True) as demo:
        demo.wait_for("tools")
        demo.process.send_signal(signal.SIGINT)
        return demo.end()


def launcher_killed_while_starting(folder: Path) -> Ended:
    with Demo(folder, *SLOW, subject=WAITING, fresh=True) as demo:
        demo.wait_for("fork server")
        demo.process.kill()
        return demo.end()


def full_disk(folder: Path, limit: int, prompts: int = 2) -> Ended:
    with Demo(folder, *CALM, prompts=prompts, file_limit=limit, subject=AT_ONCE) as demo:
        return demo.end()


def calm(folder: Path, prompts: int = 2, path: str = "/usr/bin:/bin") -> Ended:
    with Demo(folder, *CALM, prompts=prompts, path=path) as demo:
        return demo.end()


# it makes no call and prints a lot, so the disk is soon full
AT_ONCE = """
from contextlib import contextmanager
from wirefault.subjects.subject import SubjectResult

@contextmanager
def open_it(configuration):
    yield lambda prompt, context: SubjectResult("text", response="It is mild. " * 300)
"""
SCENARIOS: dict[str, Callable[[Path], Ended]] = {
    **{f"{part} killed": partial(killed, part) for part in PARTS if part != "manager"},
    "agent ended": partial(killed, "agent", number=signal.SIGTERM),
    "interrupted while starting": interrupted_while_starting,
    "launcher killed while starting": launcher_killed_while_starting,
    "no room to start": partial(full_disk, limit=100),
    "no room to run": partial(full_disk, limit=70_000, prompts=60),  # above the size of an empty state.db
}


@pytest.fixture(scope="session")
def ended_demos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndedDemos]:
    """All of them, some at once: labs must work in parallel."""
    folder = tmp_path_factory.mktemp("ends")
    pool = ThreadPoolExecutor(3)
    futures = {
        name: pool.submit(scenario, folder / name.replace(" ", "_")) for name, scenario in SCENARIOS.items()
    }
    yield futures
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("part", ["toxiproxy", "tools", "model", "gateway"])
def test_killed_process_ends_demo_and_is_named(ended_demos: EndedDemos, part: str) -> None:
    ended = ended_demos[f"{part} killed"].result()
    names(ended, part)
    assert ended.finished and not ended.finished.completed
    assert ended.finished.reason == f"{part} was killed by signal 9"


def names(ended: Ended, part: str) -> None:
    assert (ended.code, ended.left, ended.torn) == (70, {}, 0)
    assert f"{part} was killed by signal 9" in ended.output and "Traceback" not in ended.output


def test_killed_agent_is_named_and_run_has_no_end(ended_demos: EndedDemos) -> None:
    ended = ended_demos["agent killed"].result()
    names(ended, "the run")
    assert ended.events and ended.finished is None


def test_run_ended_externally_reports_reason(ended_demos: EndedDemos) -> None:
    ended = ended_demos["agent ended"].result()
    assert (ended.code, ended.left, ended.torn) == (130, {}, 0)
    assert "error: the run ended early: interrupted" in ended.output


def test_interrupt_during_start_exits_immediately(ended_demos: EndedDemos) -> None:
    ended = ended_demos["interrupted while starting"].result()
    assert (ended.code, ended.left, ended.events) == (130, {}, [])
    assert "interrupted" in ended.output and "Traceback" not in ended.output


def test_launcher_killed_during_start_leaves_no_process(ended_demos: EndedDemos) -> None:
    ended = ended_demos["launcher killed while starting"].result()
    assert (ended.code, ended.left, ended.events, ended.private) == (-signal.SIGKILL, {}, [], [])


@pytest.mark.parametrize("where", ["start", "run"])
def test_full_disk_is_one_line_error(ended_demos: EndedDemos, where: str) -> None:
    ended = ended_demos[f"no room to {where}"].result()
    assert (ended.code, ended.left) == (70, {})
    assert "a file would become larger than allowed" in ended.output or "the disk is full: " in ended.output
    assert "Traceback" not in ended.output


def test_killed_launcher_leaves_no_process_or_file_and_next_demo_works(tmp_path: Path) -> None:
    ended = launcher_killed(tmp_path)
    assert (ended.code, ended.left, ended.torn, ended.private) == (-signal.SIGKILL, {}, 0, [])
    assert ended.finished and ended.finished.reason == KILLED_LINE
    with every_port_taken():
        ended = calm(tmp_path)
    assert (ended.code, ended.left, ended.private) == (0, {}, []), ended.output
    assert ended.finished and ended.finished.completed
    assert len(list((tmp_path / "logs" / "runs").iterdir())) == 2
    assert {path.name for path in (tmp_path / "state").iterdir()} <= {"effects.db", "state.db"}


def test_next_demo_removes_files_of_killed_lab(tmp_path: Path) -> None:
    with Demo(tmp_path, *SLOW, subject=WAITING) as demo:
        demo.wait_until_in_an_attempt()
        for pid in (demo.process.pid, *processes(tmp_path).values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        demo.end()  # the lab of another test may sweep its files before the next demo does
    assert calm(tmp_path).private == []


@contextmanager
def every_port_taken() -> Iterator[None]:
    base = default_topology("lab")
    wanted = [*base.services.values(), *base.gateways.values(), *base.proxies.values()]
    with ExitStack() as stack:
        for address in [*wanted, base.manager, base.control, Address(LOOPBACK, TOXIPROXY_PORT)]:
            with suppress(OSError):  # another lab has it: taken is taken
                stack.enter_context(bind(address))
        yield


# with the real server


@pytest.fixture
def real_path() -> str:
    server = real_server_path()
    if server is None or Path(server).name != "toxiproxy-server":
        pytest.skip("no toxiproxy-server: neither TOXIPROXY_SERVER nor on PATH")
    return f"{Path(server).parent}:{os.defpath}"


def test_each_lab_has_own_server_that_ends_with_launcher(tmp_path: Path, real_path: str) -> None:
    with (
        Demo(tmp_path / "one", *SLOW, path=real_path, subject=WAITING) as one,
        Demo(tmp_path / "two", *SLOW, path=real_path, subject=WAITING) as two,
    ):
        one.wait_until_in_an_attempt()
        two.wait_until_in_an_attempt()
        one.process.kill()
        assert one.end().left == {}
        assert parts(two.folder) == set(PARTS)
        two.process.send_signal(signal.SIGINT)
        ended = two.end()
    assert (ended.code, ended.left) == (130, {}) and "toxiproxy-server)" in ended.output


# on a shared server


def test_labs_on_shared_server_heal_only_their_own(tmp_path: Path) -> None:
    with embedded_server() as url, ToxiproxyClient(url) as client:
        client.ensure_proxy("theirs", "127.0.0.1:0", "127.0.0.1:9")
        client.add_toxic("theirs", "slow", "latency", "upstream", {"latency": 5})
        before = client.proxies()
        arguments = (*SLOW, "--toxiproxy", url)
        with (
            Demo(tmp_path / "one", *arguments, subject=WAITING) as one,
            Demo(tmp_path / "two", *arguments, subject=WAITING) as two,
        ):
            one.wait_until_in_an_attempt()
            two.wait_until_in_an_attempt()
            assert len(client.proxies()) == 1 + 2 * len(lab_links())
            one.kill("manager")
            ended = one.end()
            names(ended, "manager")
            assert ended.finished and ended.finished.reason == "manager was killed by signal 9"
            assert len(client.proxies()) == 1 + 8
            two.process.send_signal(signal.SIGINT)
            two.process.send_signal(signal.SIGTERM)  # the second one changes nothing
            interrupted(two.end())
        assert client.proxies() == before
        client.delete_proxy("theirs")


def interrupted(ended: Ended) -> None:
    """Healed, with a complete history, and reported in one line."""
    assert (ended.code, ended.left, ended.torn) == (130, {}, 0) and "Traceback" not in ended.output
    assert [line for line in ended.output.splitlines() if line.startswith("interrupted")] == [
        "interrupted: healing and stopping"
    ]
    assert ended.finished and ended.finished.reason == "interrupted" and ended.finished.toxics_left == 0


# an interruption that gets lost in the subject

SWALLOWING = """
import os, signal
from contextlib import contextmanager
from wirefault.subjects.subject import SubjectResult

def swallow(prompt, context):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:  # as Python itself does in a destructor
        return SubjectResult("text", response="Nothing happened.")

@contextmanager
def open_it(configuration):
    yield swallow
"""


def test_swallowed_interrupt_ends_run_immediately(
    tmp_path: Path,
) -> None:
    with Demo(tmp_path, *CALM, subject=SWALLOWING) as demo:
        ended = demo.end()
    assert (ended.code, ended.left) == (130, {}), ended.output
    assert ended.finished and (ended.finished.reason, ended.finished.toxics_left) == ("interrupted", 0)
    assert sum(isinstance(event, EpisodeStarted) for event in ended.events) == 1
