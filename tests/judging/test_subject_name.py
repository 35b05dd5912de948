"""The subject's name in reports: with the model that answered, never one that did not."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import exchange, model_call, run_started
from tests.support import replace
from wirefault.judging.subject_name import subject_name
from wirefault.wiring.links import Link, lab_links

SELF_TEST = "self-test subject: scripted model"


def ask(link="model", **more):
    return exchange(link=link, dialect="openai_chat", **more)


@pytest.mark.parametrize(
    ("settings", "events", "name"),
    [
        ({}, [], "langchain agent, no model was called"),
        ({}, [exchange()], "langchain agent, no model was called"),
        ({}, [ask(model="scripted-diligent")], f"langchain agent, {SELF_TEST}"),
        ({"persona": "quitter"}, [ask()], f"langchain agent, {SELF_TEST} (quitter)"),
        ({}, [model_call()], f"langchain agent, {SELF_TEST}"),
        ({}, [model_call(status=None)], "langchain agent, no model answered"),
        ({}, [model_call(), ask(status=503, unavailable=True)], "langchain agent, no model answered"),
        (
            {"model": "compatible", "groq_model": "openai/gpt-oss-120b"},
            [ask(model="qwen2.5-coder"), ask(model="qwen2.5-coder")],
            "langchain agent, answered by qwen2.5-coder (compatible)",
        ),
        (
            {"model": "groq"},
            [ask(model="b"), ask(model="a"), ask()],
            "langchain agent, answered by a and b and a model that did not name itself (groq)",
        ),
        ({"model": "groq"}, [ask(status=429)], "langchain agent, no model answered"),
        # a fault answered instead of the model, or hid its answer
        ({"model": "groq"}, [ask(forwarded=False)], "langchain agent, no model answered"),
        (
            {"model": "groq"},
            [ask(status=500, upstream_status=200, model="a")],
            "langchain agent, answered by a (groq)",
        ),
    ],
    ids=str,
)
def test_lab_agent_name(settings, events, name):
    assert subject_name(run_started(**settings), events) == name


@pytest.mark.parametrize(
    ("links", "events", "name"),
    [
        ([Link("shop", "http://h")], [exchange(link="shop", dialect="http")], "mine"),
        ([lab_links()["model"]], [], "mine, no model was called through the lab"),
        ([lab_links()["model"]], [ask()], f"mine, {SELF_TEST}"),
        ([Link("llm", "https://h", "anthropic")], [ask("llm", model="claude")], "mine, answered by claude"),
        # a link that was found at run time is a model's by its requests
        ([Link("h", "https://h", found=True)], [ask("h", model="gpt")], "mine, answered by gpt"),
    ],
    ids=str,
)
def test_foreign_agent_name(links, events, name):
    started = replace(run_started(), subject="mine", subject_kind="command", links=links)
    assert subject_name(started, events) == name
