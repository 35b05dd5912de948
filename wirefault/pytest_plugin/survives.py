"""``assert_survives``: an agent's function, called with prompts under faults, an episode each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from wirefault.core.errors import InputError
from wirefault.experiments.assertions.evaluators import awaited
from wirefault.judging.oracle.expect import expect_check
from wirefault.pytest_plugin import option
from wirefault.pytest_plugin.mark import Mark, read_mark
from wirefault.pytest_plugin.session import MarkedTests, fault_line, lab_failures
from wirefault.pytest_plugin.verdict import TestVerdict
from wirefault.runner.in_process import Episode
from wirefault.wiring.prompts import Prompt, prompts_from_entries


def survive(
    tests: MarkedTests, agent: Callable[[str], object], prompts: Sequence[object], named: Mapping[str, Any]
) -> None:
    """Run the episodes, and fail the test with a paragraph for each that the agent did not survive.

    ``named`` are arguments of the marker.
    """
    lab, configuration = tests.running()
    try:
        mark = read_mark((), named, lab.topology.links, option(tests.config, "faults"))
        loaded = prompts_from_entries(prompts, "prompts", (), expect_check(configuration.wiring.links))
    except InputError as error:
        pytest.fail(f"assert_survives: {error}", pytrace=False)
    if loaded.problems:
        pytest.fail(f"assert_survives: {loaded.problems[0]}", pytrace=False)
    paragraphs: list[str] = []
    undrawn: list[str] = []
    keys = [
        replace(prompt, key=prompt.key if n == 1 else f"{prompt.key}.r{n}")
        for n in range(1, named["repeats"] + 1)
        for prompt in loaded.entries
    ]
    for prompt in keys:
        episode, verdict = _one(tests, agent, prompt, mark)
        if verdict.kind == "paid":
            pytest.skip(f"{verdict.reasons[0]}: run it with --wirefault-paid")
        lines = [*verdict.reasons, *map(fault_line, verdict.faults), tests.why_line(episode)]
        paragraph = "\n".join([f"{verdict.kind}: {prompt.text!r}", *(f"    {line}" for line in lines)])
        if verdict.kind == "not drawn":
            undrawn.append(paragraph)
        elif verdict.kind != "passed":
            paragraphs.append(paragraph)
    if len(undrawn) == len(keys):
        paragraphs += [
            "unknown: no fault was drawn in any episode: use more repeats, or another seed",
            *undrawn,
        ]
    if paragraphs:
        of = f"{len(paragraphs)} of {len(keys)} episodes, seed {tests.seed}"
        pytest.fail("\n".join([of, *paragraphs]), pytrace=False)


def _one(
    tests: MarkedTests, agent: Callable[[str], object], prompt: Prompt, mark: Mark
) -> tuple[Episode, TestVerdict]:
    lab, configuration = tests.running()
    settings = configuration.settings.model_copy(update={"seed": tests.seed, "faults": mark.faults})
    with lab_failures(), lab.tap.active(), lab.episode(prompt, settings) as episode:
        try:
            episode.answer = _called(agent, prompt.text)
        except Exception as error:  # noqa: BLE001 - an agent may raise anything: its crash
            episode.error = error
    verdict = tests.verdict(mark, episode, repeated=True)
    return episode, verdict


def _called(agent: Callable[[str], object], text: str) -> object:
    """The agent's answer; ``{"response": text}`` is the text."""
    answer: Any = agent(text)
    if inspect.isawaitable(answer):
        answer = awaited(answer)
    return answer["response"] if isinstance(answer, dict) and answer.keys() == {"response"} else answer
