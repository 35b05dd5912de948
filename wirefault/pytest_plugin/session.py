"""The marked tests of one pytest process, and the lab that they share."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from _pytest.unittest import TestCaseFunction

from wirefault.core.errors import InputError, UserError
from wirefault.core.files import OUTPUT_FOLDER
from wirefault.core.lab_folder import output_folder
from wirefault.core.signing import take_key_variable
from wirefault.experiments.episode_view import NO_ANSWER, episode_views
from wirefault.history.events import Event
from wirefault.judging.account import FaultAccount
from wirefault.judging.checker import CheckResult
from wirefault.judging.judge import judge_run
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.pytest_plugin import MARKER, option, repeats_of, session_seed
from wirefault.pytest_plugin.fixture import Wirefault
from wirefault.pytest_plugin.mark import Mark, read_mark
from wirefault.pytest_plugin.verdict import (
    TestVerdict,
    calls_seen,
    judge_test,
    links_named_by_port,
    paid_models,
    without_repetition,
)
from wirefault.report import next_command
from wirefault.runner.in_process import BlockSubject, InProcessLab
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.wiring.links import MODEL_HOSTS
from wirefault.wiring.prompts import Prompt
from wirefault.wiring.spec_file import SpecFile, read_spec_file
from wirefault.wiring.wiring import Wiring, build_wiring

_KEY_LENGTH = 40
_PROVIDERS = (*MODEL_HOSTS, "*.openai.azure.com")
_ASK = "run it with --wirefault-paid"


class MarkedTests:
    """Starts the lab for the first test that needs it; ``close`` takes it down."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seed = session_seed(config)
        self.paid = _is_paid(config)
        self._stack = ExitStack()
        self._lab: tuple[InProcessLab, Configuration] | None = None
        self._problem: UserError | None = None
        self._marks: dict[str, Mark] = {}
        self._links: dict[str, object] = {}
        self.wiring_data: Mapping[str, Any] = {}
        """The content of the wiring of the lab, with paths relative to ``wiring_folder``."""
        self.wiring_folder = Path()

    def close(self) -> None:
        """Take the lab down."""
        self._stack.close()
        self._lab = None

    @contextmanager
    def fixture(self, item: pytest.Item, links: object) -> Iterator[Wirefault]:
        """The fixture of a test, with clients led to the lab. Fails the test if that is not possible."""
        marker = item.get_closest_marker(MARKER)
        if marker is not None and marker.kwargs.get("paid") is True and not self.paid:
            pytest.skip(f"costs money: {_ASK}")
        self._name_links(links)
        lab, configuration = self.running()
        if marker is not None:
            models = paid_models(configuration.wiring.links)
            if models and not self.paid and marker.kwargs.get("paid") is not False:
                why = f"the link {models[0]} leads to a model that costs money"
                pytest.skip(f"{why}: {_ASK}, or say paid=False")
            try:
                mark = read_mark(
                    marker.args, marker.kwargs, lab.topology.links, option(self.config, "faults")
                )
            except InputError as error:
                pytest.fail(f"@pytest.mark.{MARKER}: {error}", pytrace=False)
            self._marks[item.nodeid] = mark
            if isinstance(item, TestCaseFunction) and repeats_of(self.config, marker) > 1:
                name = "repeats" if "repeats" in marker.kwargs else "--wirefault-repeats"
                why = f"{name}: not on a unittest.TestCase; write the test as a function, or say repeats=1"
                pytest.fail(f"@pytest.mark.{MARKER}: {why}", pytrace=False)
        with lab_failures(), lab.tap.active():
            yield Wirefault(lab, configuration, self.seed, episode_key(item.nodeid))

    @contextmanager
    def episode(self, item: pytest.Item) -> Iterator[None]:
        """Make the block the test's episode, and fail the test by what the episode shows."""
        fixture = getattr(item, "funcargs", {}).get("wirefault")
        if not isinstance(fixture, Wirefault) or item.nodeid not in self._marks:
            pytest.fail(
                f"@pytest.mark.{MARKER}: must be on the test, its class or its module, not added later",
                pytrace=False,
            )
        mark = self._marks.pop(item.nodeid)
        lab, configuration = self.running()
        settings = configuration.settings.model_copy(update={"seed": self.seed, "faults": mark.faults})
        episodes: list[BlockSubject] = []
        passed = False
        try:
            with (
                lab_failures(),
                lab.episode(Prompt(episode_key(item.nodeid), item.nodeid), settings) as episode,
            ):
                episodes.append(episode)
                with fixture.in_episode(episode):
                    yield
                passed = True
        finally:
            verdict = self._judged(item, mark, episodes)
            if verdict is not None:
                text = self._reported(item, mark, verdict, episodes[0], passed=passed)
                skip_or_fail(text, verdict, passed=passed)

    def _judged(self, item: pytest.Item, mark: Mark, episodes: list[BlockSubject]) -> TestVerdict | None:
        """The verdict; None for an episode that did not run or was interrupted."""
        run = episodes[0].finished_run if episodes else None
        if run is None or run.record.interrupted:
            return None
        if isinstance(episodes[0].error, pytest.skip.Exception):
            return None
        return self.verdict(mark, episodes[0], repeated=without_repetition(item.nodeid)[1] > 0)

    def verdict(self, mark: Mark, episode: BlockSubject, *, repeated: bool) -> TestVerdict:
        """The verdict of a finished episode; the mark's checks run now, outside of the lab."""
        run, lab = episode.run, self.running()[0]
        with lab.tap.paused():
            checked = list(_checked(mark, run.record.events, answered=episode.answer is not None))
        return judge_test(
            mark, run.summary, run.record.events, run.failure, repeated=repeated, checked=checked
        )

    def why_line(self, episode: BlockSubject) -> str:
        """The command that shows the episode."""
        return next_command.why_line(episode.run_id, episode.prompt.key, self.running()[1].logs)

    def _reported(
        self, item: pytest.Item, mark: Mark, verdict: TestVerdict, episode: BlockSubject, *, passed: bool
    ) -> str:
        """Put the verdict into the test's report; its text."""
        kind = verdict.kind if passed or verdict.kind == "paid" else "failed"
        unknown = "unknown: " if verdict.kind == "unknown" else ""
        lines = [f"{unknown}{reason}" for reason in verdict.reasons]
        lines += [fault_line(row) for row in verdict.faults]
        again = shlex.join(["pytest", item.nodeid, f"--wirefault-seed={self.seed}"])
        why = self.why_line(episode)
        if mark.by_chance and (ports := links_named_by_port(episode.run.record.events)):
            again += (
                f"  # other draws if {' or '.join(ports)} changes: name it by the fixture wirefault_links"
            )
        text = "\n".join([*lines, f"again: {again}", why])
        if not passed:
            item.add_report_section("call", "wirefault", text)
        calls = calls_seen(episode.run.record.events)
        item.user_properties += [
            ("wirefault_verdict", kind),
            ("wirefault_seed", self.seed),
            ("wirefault_run", episode.run_id),
            ("wirefault_calls", calls),
            ("wirefault_reasons", "\n".join(verdict.reasons)),
            ("wirefault_faults", "\n".join(fault_line(row) for row in verdict.faults)),
            ("wirefault_again", again),
            ("wirefault_why", why),
        ]
        return text

    def running(self) -> tuple[InProcessLab, Configuration]:
        """The lab, started by the first call. Fails the test if it cannot start."""
        if self._lab is None:
            try:
                if self._problem is not None:
                    raise self._problem
                self._lab = self._started()
            except UserError as error:
                self._problem = error
                pytest.fail(f"wirefault: {error}", pytrace=False)
        return self._lab

    def _name_links(self, links: object) -> None:
        """Take the value of the fixture ``wirefault_links``; other links than before need another lab."""
        if not isinstance(links, dict):
            pytest.fail(f"wirefault_links: must return addresses by name, not {links!r:.80}", pytrace=False)
        entries = {
            str(name): {"upstream": entry} if isinstance(entry, str) else entry
            for name, entry in links.items()
        }
        if entries != self._links:
            self.close()
            self._links, self._problem = entries, None

    def _started(self) -> tuple[InProcessLab, Configuration]:
        take_key_variable()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="wirefault-pytest-"))
        configuration = self._configuration(Path(folder))
        choice = choose_toxiproxy(option(self.config, "toxiproxy") or "auto", configuration.environ)
        return self._stack.enter_context(InProcessLab(configuration, choice)), configuration

    def _configuration(self, folder: Path) -> Configuration:
        environ = {
            "LOGS_DIR": str(_output(self.config.rootpath) / "logs"),
            **os.environ,
            "STATE_DB": str(folder / "state.db"),
            "EFFECTS_DB": str(folder / "effects.db"),
        }
        settings: dict[str, Any] = {"seed": self.seed, "model": "scripted"}
        return load_configuration(environ, settings, self._wiring(), from_surroundings=False)

    def _wiring(self) -> Wiring:
        """The wiring of the option, or one that intercepts everything; unpaid, without model providers."""
        named = option(self.config, "wiring")
        folder, file = self.config.rootpath, SpecFile("pytest", {"intercept": {}})
        if named:
            path = self.config.invocation_params.dir / named
            folder, file = path.parent, read_spec_file(path)
        models = option(self.config, "models")
        if models not in ("", "own", "scripted"):
            raise InputError(f"--wirefault-models: must be own or scripted, not {models!r}")
        if self._links:
            links = {**file.data.get("links", {}), **self._links}
            file = replace(file, data={**file.data, "links": links})
        self.wiring_folder, self.wiring_data = folder, file.data
        wiring = build_wiring(file, folder)
        if (intercept := wiring.intercept) is None:
            return wiring
        changed = intercept.model_dump(by_alias=True, exclude_unset=True)
        changed |= {"models": models} if models else {}
        if not self.paid and (models or intercept.models) == "own":
            changed["refuse"] = [*intercept.refuse, *_PROVIDERS]
        self.wiring_data = {**file.data, "intercept": changed}
        return build_wiring(replace(file, data=self.wiring_data), folder)


def _checked(mark: Mark, events: Sequence[Event], *, answered: bool) -> Iterator[CheckResult]:
    """The results of the mark's checks."""
    for view in episode_views(judge_run(events)) if mark.checks else ():
        for check in mark.checks:
            result = check(view)
            if result.passed is None and not answered and result.message == NO_ANSWER:
                result = replace(result, message="the test recorded no answer: wirefault.answer(...)")
            yield result


def episode_key(nodeid: str) -> str:
    """The key of a test's episode: the same on every machine and for each repetition, but for its number."""
    nodeid, repetition = without_repetition(nodeid)
    suffix = f".r{repetition}" if repetition > 1 else ""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", nodeid.rpartition("::")[2]).strip("-")[:_KEY_LENGTH]
    return f"{name}-{blake2b(nodeid.encode(), digest_size=3).hexdigest()}{suffix}"


def _output(root: Path) -> Path:
    """The folder of the runs, where ``wirefault show`` in the root of the tests finds them."""
    return output_folder() if root == Path.cwd() else root / OUTPUT_FOLDER


def skip_or_fail(text: str, verdict: TestVerdict, *, passed: bool) -> None:
    """End the test by its verdict. A body that failed keeps its own exception, unless money was refused."""
    if verdict.kind == "paid":
        pytest.skip(f"{verdict.reasons[0]}: {_ASK}")
    if not passed:
        return
    if verdict.kind == "not drawn":
        pytest.skip(f"unknown: {'; '.join(verdict.reasons)}")
    if verdict.kind in ("failed", "unknown"):
        pytest.fail(text, pytrace=False)


def fault_line(row: FaultAccount) -> str:
    counts = {"eligible": row.eligible, "met": row.met, "injected": row.injected}
    counted = ", ".join(f"{name} {'unknown' if count is None else count}" for name, count in counts.items())
    return f"fault {row.label}: {counted}"


@contextmanager
def lab_failures() -> Iterator[None]:
    """Fail the test without a traceback if the lab fails."""
    try:
        yield
    except UserError as error:
        pytest.fail(f"wirefault: unknown: {error}", pytrace=False)


def _is_paid(config: pytest.Config) -> bool:
    value = config.getoption("wirefault_paid")
    return bool(config.getini("wirefault_paid") if value is None else value)
