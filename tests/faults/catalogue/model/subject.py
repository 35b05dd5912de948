"""ChatGroq in a LangChain agent with one tool and a structured report, as people build it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from langchain_groq import ChatGroq
from pydantic import BaseModel

from tests.dialects.forms import FINAL, USER
from tests.dialects.sdks import CLOSE, count_retries
from tests.support import PATIENCE_S
from wirefault.dialects.base import ModelReply

STEPS = 12


class Report(BaseModel):
    """Report to the user; ends the task."""

    status: Literal["done", "failed", "unsure"]
    answer: str


class Subject:
    """The agent. ``called`` and ``tries``: the tool's arguments, and the requests sent again, of one run."""

    def __init__(self, model: ChatGroq) -> None:
        self.called: list[tuple[str, int | None]] = []
        self.tries = 1
        self._client = model.client._client
        count_retries(self._client, self)

        @tool
        def get_weather(city: str, days: int | None = None) -> str:
            """The weather of a city."""
            self.called.append((city, days))
            return '{"temperature": 21.5}'

        self._graph = create_agent(model, [get_weather], response_format=ToolStrategy(Report))

    def run(self, timeout_s: float = PATIENCE_S) -> tuple[list[tuple[str, int | None]], str, str]:
        """The tool's calls, the report's answer, and the text that replaces a missing report.

        The agent carries out parallel calls at once, so they are sorted.
        """
        self.called, self.tries = [], 1
        self._client.timeout = timeout_s
        state: dict[str, Any] = self._graph.invoke(
            {"messages": [{"role": "user", "content": USER}]}, {"recursion_limit": STEPS}
        )
        report = state.get("structured_response")
        called = sorted(self.called, key=str)
        return called, report.answer if report else "", "" if report else state["messages"][-1].text


def script(asking: ModelReply, body: dict[str, Any]) -> ModelReply:
    """The model: it asks for the weather, and reports once it has it."""
    return FINAL if body["messages"][-1]["role"] == "tool" else asking


@contextmanager
def subject(url: str, streaming: bool) -> Iterator[Subject]:
    with httpx.Client(trust_env=False) as client:
        yield Subject(
            ChatGroq(
                model="m",
                api_key="k",  # type: ignore[arg-type]
                base_url=url,
                streaming=streaming,
                default_headers=CLOSE,
                http_client=client,
                http_async_client=httpx.AsyncClient(transport=httpx.AsyncBaseTransport(), trust_env=False),
            )
        )
