"""Audit the agents of ``examples/cookbook``, and write ``docs/cookbook.md``: ``python -m tools.cookbook``.

Names as arguments audit only these recipes and print their blocks. A slow test audits all of them and
compares the page.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from wirefault.core.sockets import Address, bind, bound_address

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "cookbook.md"
VARIANTS = ("faulty", "mended")
_AGENTS = ROOT / "examples" / "cookbook"
_PATIENCE_S = 5
_BOUND_S = 300.0
_PRINTED = re.compile(r"^(?:HARM|RISK|WASTE|note|fine|unknown) .*$|^ +(?:also|Evidence:) .*$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """A complaint, and the agents that show it and mend it."""

    name: str
    title: str
    complaint: str
    issues: Sequence[str]
    mend: str
    questions: Sequence[str]


RECIPES: Sequence[Recipe] = (
    Recipe(
        "doubled_by_retry",
        "Two effects by a retry",
        "A reply is lost after the server has done its work. A client that sends the request again does the"
        " work twice.",
        ("stripe/ai/issues/402", "ComposioHQ/composio/issues/3654"),
        "One idempotency key for all tries of one call. A key made anew for each try helps nothing.",
        ("lost_reply",),
    ),
    Recipe(
        "doubled_by_replay",
        "Two effects by a replay of the conversation",
        "The model fails after a tool has done its work, and the run starts again from its first message or"
        " its last checkpoint, with the tool's call.",
        ("microsoft/agent-framework/issues/3938", "langchain-ai/langgraph/issues/7780"),
        "Continue the conversation that has the tool's result.",
        ("model_5xx_after_write",),
    ),
    Recipe(
        "no_fallback",
        "The provider is down and there is no fallback",
        "After its retries the agent gives up, although the work is done and another provider could say so.",
        ("NousResearch/hermes-agent/issues/68771", "openclaw/openclaw/issues/70120"),
        "A second provider that continues the same conversation.",
        ("model_down_after_write",),
    ),
    Recipe(
        "stalled_stream",
        "A stalled stream",
        "The stream has begun, then nothing more comes and nothing closes. Without a limit for silence the"
        " agent waits.",
        ("earendil-works/pi/issues/8331", "langchain-ai/langchain/issues/35597"),
        "A limit for the silence between two bytes, and one more try.",
        ("stream_stalls",),
    ),
    Recipe(
        "empty_answer",
        "An empty answer",
        "The model answers with nothing: some agents crash, others print nothing and report success.",
        ("crewAIInc/crewAI/issues/2885", "google/adk-python/issues/532"),
        "Ask once more, then end with an error that says so.",
        ("model_empty",),
    ),
    Recipe(
        "success_after_failure",
        "Success claimed after a failure",
        "A tool fails without raising, its result reads like success, and the agent reports work that was"
        " never done.",
        ("NousResearch/hermes-agent/issues/54722", "crewAIInc/crewAI/pull/6712"),
        "The tool raises, and the model receives the error.",
        ("write_5xx",),
    ),
    Recipe(
        "mcp_drop",
        "An MCP server restarts",
        "The server answers 404 to the old session. The client keeps that session, and every later call"
        " fails.",
        ("spring-projects/spring-ai/issues/3337", "anthropics/claude-code/issues/94273"),
        "A 404 for a session means: initialize again. The call was not carried out, so it may be repeated.",
        ("mcp_session_unknown",),
    ),
    Recipe(
        "loop_on_failing_call",
        "A loop on a failing call",
        "The call fails, the model asks for the same call again, until a limit of steps or of money ends it.",
        ("bytedance/deer-flow/issues/1055", "agno-agi/agno/issues/6984"),
        "The same call with the same error ends the loop.",
        ("write_refused",),
    ),
    Recipe(
        "retry_after_ignored",
        "Retry-After is ignored",
        "The server says when it accepts the next request, and the client asks earlier.",
        ("tinyhumansai/openhuman/issues/6504", "openai/openai-node/issues/1108"),
        "Wait as long as the header says.",
        ("write_429",),
    ),
    Recipe(
        "retries_multiplied",
        "Retries multiplied across layers",
        "The SDK retries, the framework retries around it: their tries multiply, most of them invisible in"
        " the logs.",
        ("livekit/agents/pull/5335", "mpfaffenberger/code_puppy/pull/317"),
        "One layer retries, and no layer retries a used-up quota.",
        ("model_quota",),
    ),
)


@dataclass(frozen=True)
class Audited:
    """One audit of one variant."""

    lines: Sequence[str]
    """The console's lines about the questions, with the servers' usual ports."""
    document: Mapping[str, Any]


def audit_all(recipes: Sequence[Recipe], workers: int = 4) -> dict[tuple[str, str], Audited]:
    """Audit both variants of each recipe, some side by side."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        shop = stack.enter_context(_server("shop/shop.py", folder, "orders", str(folder / "orders.db")))
        environ = {**os.environ, "SHOP_URL": shop}
        mcp = stack.enter_context(_server("cookbook/mcp_server.py", folder, "mcp", environ=environ))
        environ |= {"MCP_URL": f"{mcp}/mcp", "OPENAI_API_KEY": "none", "COLUMNS": "110"}
        jobs = [(recipe, variant) for recipe in recipes for variant in VARIANTS]
        with ThreadPoolExecutor(workers) as pool:
            audited = pool.map(lambda job: _audit(job[0], job[1], folder, environ), jobs)
            return {
                (recipe.name, variant): each for (recipe, variant), each in zip(jobs, audited, strict=True)
            }


def _audit(recipe: Recipe, variant: str, folder: Path, environ: Mapping[str, str]) -> Audited:
    home = folder / f"{recipe.name}.{variant}"
    home.mkdir()
    ask = [word for question in recipe.questions for word in ("--ask", question)]
    options = ["--scripted", "--workers", "1", "--patience", str(_PATIENCE_S), "--json", "audit.json", *ask]
    agent = [sys.executable, str(_AGENTS / f"{recipe.name}.py"), variant]
    command = [sys.executable, "-m", "wirefault", "audit", *options, "--", *agent]
    path = os.pathsep.join([str(ROOT), *filter(None, [environ.get("PYTHONPATH", "")])])
    ended = subprocess.run(
        command,
        cwd=home,
        env={**environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=_BOUND_S,
    )
    if ended.returncode not in (0, 1):
        raise RuntimeError(
            f"{recipe.name} {variant}: exit code {ended.returncode}: {ended.stdout}{ended.stderr}"
        )
    document = json.loads((home / "audit.json").read_text(encoding="utf-8"))
    return Audited(_PRINTED.findall(ended.stdout), document)


@contextmanager
def _server(
    program: str, folder: Path, name: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    with bind(Address("127.0.0.1", 0)) as free:
        port = bound_address(free).port
    command = [sys.executable, str(ROOT / "examples" / program), str(port), *arguments]
    log = (folder / f"{name}.log").open("w")
    with log, subprocess.Popen(command, env=environ, stdout=log, stderr=log) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < end:
        try:
            with urlopen(url, timeout=5):
                return
        except URLError as error:
            if hasattr(error, "code"):  # it answers, with a 404
                return
            time.sleep(0.1)
    raise RuntimeError(f"{url}: no server there")


_INTRODUCTION = f"""\
# Cookbook

<!-- made by `python -m tools.cookbook`; do not edit -->

Ten complaints that people file about agents. Each has a small agent of
[examples/cookbook](../examples/cookbook) that shows it, the same agent mended, and the audit's lines on both.
The agents share one tool and one loop ([loop.py](../examples/cookbook/loop.py)); the scripted model answers.
`--patience {_PATIENCE_S}` keeps hangs short: without it the audit waits 20 s or more. Repeat one with the
shop on port 9000 (for `mcp_drop` also `python examples/cookbook/mcp_server.py 9001`):

```text
python examples/shop/shop.py --background
wirefault audit --scripted --ask lost_reply -- python examples/cookbook/doubled_by_retry.py faulty
```

A mended agent is mended for its complaint; other [questions](questions.md) may still find something.
"""


def page(audited: Mapping[tuple[str, str], Audited], recipes: Sequence[Recipe] = RECIPES) -> str:
    """Return ``docs/cookbook.md``."""
    return "\n".join([_INTRODUCTION, *(_section(recipe, audited) for recipe in recipes)])


def _section(recipe: Recipe, audited: Mapping[tuple[str, str], Audited]) -> str:
    issues = ", ".join(f"[{_short(each)}](https://github.com/{each})" for each in recipe.issues)
    ask = " ".join(f"--ask {question}" for question in recipe.questions)
    blocks = []
    for variant in VARIANTS:
        lines = "\n".join(audited[recipe.name, variant].lines)
        blocks.append(f"$ wirefault audit --scripted {ask} -- python {recipe.name}.py {variant}\n{lines}")
    return (
        f"## {recipe.title}\n\n{recipe.complaint} Public: {issues}.\n\n"
        f"Mended: {recipe.mend} Code: [{recipe.name}.py](../examples/cookbook/{recipe.name}.py).\n\n"
        f"```text\n" + "\n\n".join(blocks) + "\n```\n"
    )


def _short(issue: str) -> str:
    owner, repository, _, number = issue.split("/")
    return f"{owner}/{repository}#{number}"


def main() -> None:
    chosen = [recipe for recipe in RECIPES if recipe.name in sys.argv[1:]] or RECIPES
    audited = audit_all(chosen)
    if len(chosen) < len(RECIPES):
        print("\n".join(_section(recipe, audited) for recipe in chosen))
        return
    PAGE.write_text(page(audited), encoding="utf-8")


if __name__ == "__main__":
    main()
