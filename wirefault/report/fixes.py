"""The usual remedy of a finding: one sentence, and a snippet for the client that made the request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from wirefault.history.judged_events import Finding, Severity
from wirefault.judging.layers import BY_LAYER

WORDS: Mapping[Severity, str] = {"harmful": "HARM", "risky": "RISK", "wasteful": "WASTE", "note": "note"}
Client = Literal["httpx", "requests", "openai", "fetch", "LangGraph"]
_CLIENTS: Mapping[Client, re.Pattern[str]] = {
    "openai": re.compile(r"^(?:Async)?(?:OpenAI|Anthropic)/Python", re.I),
    "httpx": re.compile(r"^python-httpx/"),
    "requests": re.compile(r"^python-requests/"),
    "fetch": re.compile(r"^(?:node|undici|Deno|Bun)\b"),
}
"""By the name that each gives itself in User-Agent."""

_ONE_KEY = "Use one idempotency key for all tries of a write, and look it up before a retry."
_CONFIRM = "Ask for confirmation before a write that the user did not ask for."
_REPORT_WRITES = "Record each write when it succeeds, and report it even if a later call fails."
_EMPTY = "Treat an empty model reply as a failure: ask again, then report it."
HELPS: Mapping[str, str] = {
    "write_repeated": _ONE_KEY,
    "extra_writes": "Give each step one idempotency key, and check before a write whether it was done.",
    "done_but_not_told": _REPORT_WRITES,
    "not_done_but_told": "Make the answer from the tool's result, and read the state back after a write.",
    "error_as_result": "Check status and body of a tool's reply before they count as a result.",
    "write_on_greeting": _CONFIRM,
    "one_failure_ends_it": "Catch the failure: ask again a few times within a time limit, then report it.",
    "silent": _EMPTY,
    "empty_reply": _EMPTY,
    "error_as_answer": "Catch the error and say what was done and what was not.",
    "damaged_reply": "Check the finish reason and the form of a reply before it is used.",
    "damaged_call": "Do not execute a tool call whose arguments are incomplete.",
    "open_stream": "Treat a stream without its end event as failed.",
    "no_time_limit": "Set a read timeout on each client, and a deadline for the whole task.",
    "hasty_retry": "Let the code that sends the request wait as Retry-After says: a model cannot wait.",
    "retry_storm": "Wait longer before each further try, with some randomness, and give up after a few.",
    "useless_retry": "Do not repeat requests that the server refused for good.",
    "layered_retries": "Let one layer retry; set the others' retries to 0.",
    "asked_again": "Stop after the same call has failed or answered alike a few times.",
    "dead_server": "Open a new session with the MCP server, or report that it is gone.",
    "false_success": "Make the answer from the tools' results, and check it before it says that all is done.",
    "duplicate": _ONE_KEY,
    "unasked_write": _CONFIRM,
    "false_failure": _REPORT_WRITES,
    "crash": "Catch the failure of a call, and report what was done and what was not.",
    "runaway": "Limit calls and time, and report what is left.",
    "foreign_secret": "Send a credential only to the host that it is for.",
}
"""By rule or outcome."""

_KEY = {
    "httpx": (
        "key = str(uuid.uuid4())  # once, before the first try\n"
        'httpx.post(url, json=order, headers={"Idempotency-Key": key})'
    ),
    "requests": (
        "key = str(uuid.uuid4())  # once, before the first try\n"
        'requests.post(url, json=order, headers={"Idempotency-Key": key})'
    ),
    "fetch": (
        "const key = crypto.randomUUID();  // once, before the first try\n"
        'await fetch(url, {method: "POST", body, headers: {"Idempotency-Key": key}});'
    ),
    "LangGraph": (
        "def plan(state):  # a step before the one that may be repeated\n"
        '    return {"key": str(uuid.uuid4())}'
    ),
}
_TIMEOUT = {
    "httpx": "httpx.Client(timeout=httpx.Timeout(30))",
    "requests": "requests.post(url, json=order, timeout=(5, 30))",
    "openai": "OpenAI(timeout=30, max_retries=2)",
    "fetch": "await fetch(url, {signal: AbortSignal.timeout(30_000)});",
    "LangGraph": "graph.step_timeout = 60",
}
_WAIT = {
    "httpx": (
        'wait = reply.headers.get("Retry-After", "")\n'
        "time.sleep(float(wait) if wait.isdigit() else 2**attempt + random.random())"
    ),
    "requests": (
        "retry = Retry(3, backoff_factor=1, status_forcelist=(429, 503))  # urllib3.util: heeds Retry-After\n"
        'session.mount("https://", HTTPAdapter(max_retries=retry))'
    ),
    "openai": "OpenAI(max_retries=2)  # the SDK heeds Retry-After: no other loop around it",
    "fetch": (
        'const wait = Number(reply.headers.get("retry-after")) || 2 ** attempt;\n'
        "await new Promise((done) => setTimeout(done, 1000 * wait));"
    ),
    "LangGraph": "RetryPolicy(max_attempts=3, initial_interval=1, backoff_factor=2, jitter=True)",
}
_ONE_LAYER = {
    "httpx": "httpx.Client(transport=httpx.HTTPTransport(retries=0))",
    "requests": 'session.mount("https://", HTTPAdapter(max_retries=0))',
    "openai": "OpenAI(max_retries=0)",
    "LangGraph": "RetryPolicy(max_attempts=1)",
}
_STATUS = {
    "httpx": "reply.raise_for_status()",
    "requests": "reply.raise_for_status()",
    "fetch": "if (!reply.ok) throw new Error(`${reply.status} of ${url}`);",
}
_FINISHED = {
    "openai": (
        'if choice.finish_reason not in ("stop", "tool_calls"):\n    raise ValueError(choice.finish_reason)'
    ),
}
_SNIPPETS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("write_repeated", "extra_writes", "duplicate"), _KEY),
    "no_time_limit": _TIMEOUT,
    **dict.fromkeys(("hasty_retry", "retry_storm"), _WAIT),
    "layered_retries": _ONE_LAYER,
    **dict.fromkeys(("error_as_result", "not_done_but_told"), _STATUS),
    **dict.fromkeys(("damaged_reply", "open_stream", "damaged_call"), _FINISHED),
}
"""By rule and client."""


def snippet_for(finding: Finding) -> str:
    """Return what to write for the client that was seen; empty if none is known.

    Of a step that was repeated as a whole, a framework's: the client's own retries did not do it.
    """
    of_rule = _SNIPPETS.get(finding.rule, {})
    if BY_LAYER["step"] in finding.text:
        return of_rule.get("LangGraph", "")
    return of_rule.get(client_named(finding.client) or "", "")


def client_named(user_agent: str) -> Client | None:
    """Return the client of a User-Agent; None if it is not known here."""
    return next((name for name, pattern in _CLIENTS.items() if pattern.match(user_agent)), None)
