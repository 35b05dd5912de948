"""Runs tests in several processes side by side: forked when the tests have been read, each with all of them.

pytest-xdist has each of its workers import and read all tests anew, and sends five messages for each test: of
11,000 short ones that was an eighth of the processor time of ``make test``.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from mmap import mmap
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

_TICKET = 2  # bytes of the number of a group
_INDEX = 4  # bytes of the number of a test


class SideBySide:
    """A plugin of pytest. ``group_of`` names the group of a test: one process runs all tests of a group.

    The groups are begun in the order of their first tests. Fixtures of a wider scope than a group are set up
    in each process that needs them. A process that ends by itself fails the test that it was at.
    """

    def __init__(self, processes: int, group_of: Callable[[str], str]) -> None:
        self._processes = processes
        self._group_of = group_of

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Nothing but what pytest itself does where there is nothing to be done side by side."""
        groups: dict[str, list[int]] = {}
        for index, item in enumerate(session.items):
            groups.setdefault(self._group_of(item.nodeid), []).append(index)
        option = session.config.option
        processes = min(self._processes, len(groups))
        if processes < 2 or session.testsfailed or option.collectonly or option.usepdb:
            return None
        with mmap(-1, 1 + _INDEX * processes) as shared:
            _run(session, _Plan(list(groups.values()), _tickets(len(groups)), shared), processes)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True


class _Plan:
    """What all processes share: which groups nobody has begun, whether to stop, and where each process is."""

    def __init__(self, groups: list[list[int]], tickets: int, shared: mmap) -> None:
        self._groups = groups
        self._tickets = tickets
        self._shared = shared

    def stop(self) -> None:
        self._shared[0] = 1

    def tests(self) -> Iterator[tuple[int, int | None]]:
        """The tests of groups that nobody else runs, each with what follows it in its group."""
        while ticket := os.read(self._tickets, _TICKET):
            group = self._groups[int.from_bytes(ticket)]
            for test in zip(group, [*group[1:], None], strict=True):
                if self._shared[0]:
                    return
                yield test

    def come_to(self, process: int, index: int) -> None:
        self._shared[self._place(process)] = index.to_bytes(_INDEX)

    def at(self, process: int) -> int:
        return int.from_bytes(self._shared[self._place(process)])

    @staticmethod
    def _place(process: int) -> slice:
        return slice(1 + _INDEX * process, 1 + _INDEX * (process + 1))

    def close(self) -> None:
        os.close(self._tickets)


def _tickets(groups: int) -> int:
    """A pipe that holds the number of each group once: whoever reads one has that group for itself."""
    tickets, fill = os.pipe()
    numbers = b"".join(number.to_bytes(_TICKET) for number in range(groups))
    os.set_blocking(fill, False)  # more than a pipe holds would be waited for in vain
    assert os.write(fill, numbers) == len(numbers)
    os.close(fill)
    return tickets


def _run(session: pytest.Session, plan: _Plan, processes: int) -> None:
    temporary = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    reports: dict[Connection, tuple[int, int]] = {}
    try:
        for process in range(processes):
            receive, send = Pipe(duplex=False)
            if not (pid := os.fork()):
                for other in (*reports, receive):  # else it would not learn that the first process is gone
                    other.close()
                _run_tests(session, plan, process, send, temporary / f"process-{process}")
            send.close()
            reports[receive] = pid, process
        _take_reports(session, plan, reports)
    finally:
        plan.stop()
        for pid, _ in reports.values():
            os.waitpid(pid, 0)
        plan.close()


def _take_reports(session: pytest.Session, plan: _Plan, reports: dict[Connection, tuple[int, int]]) -> None:
    """Tells pytest of each report as if the test had run here, until all processes have ended."""
    while reports:
        for ready in wait(list(reports)):
            assert isinstance(ready, Connection)
            try:
                _pass_on(session, ready.recv())
            except EOFError:
                pid, process = reports.pop(ready)
                ready.close()
                if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                    _report_end(session, session.items[plan.at(process)], code)
        if session.shouldfail or session.shouldstop:
            plan.stop()


def _pass_on(session: pytest.Session, data: dict[str, Any]) -> None:
    hook = session.config.hook
    report = hook.pytest_report_from_serializable(config=session.config, data=data)
    hook.pytest_runtest_logreport(report=report)
    if report.when == "teardown":
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _report_end(session: pytest.Session, item: pytest.Item, code: int) -> None:
    """Fails the test at which a process ended."""
    why = f"the process that ran this test ended with {code}; the rest of its group was not run"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
    session.config.hook.pytest_runtest_logreport(report=report)


def _run_tests(
    session: pytest.Session, plan: _Plan, process: int, send: Connection, temporary: Path
) -> NoReturn:
    """In a forked process: runs tests and sends their reports. It ends with 0 if it came to its end."""
    config, code = session.config, 1
    atexit._clear()  # what the first process is to do at its end
    try:
        _print_and_keep_files_apart(config, temporary)
        config.pluginmanager.register(_Sender(config, send))
        for index, following in plan.tests():
            plan.come_to(process, index)
            # what a session shares is kept at the end of a group: which is the next one, nobody knows yet
            nextitem = session if following is None else session.items[following]
            config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=nextitem)
        session._setupstate.teardown_exact(None)
        code = 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what tests have set up is taken down now
        session._setupstate.teardown_exact(None)
        code = 130
    except BaseException:  # noqa: BLE001  # whatever it is ends this process, which says what it was
        traceback.print_exc(file=sys.__stderr__)
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _print_and_keep_files_apart(config: pytest.Config, temporary: Path) -> None:
    """Forked processes share a descriptor's place in its file, and names that are counted up."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config.pluginmanager.unregister(name="terminalreporter")
    temporary.mkdir()
    config._tmp_path_factory._basetemp = temporary  # type: ignore[attr-defined]


class _Sender:
    def __init__(self, config: pytest.Config, send: Connection) -> None:
        self._config = config
        self._send = send

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
