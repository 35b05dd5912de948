"""What usually helps against each finding and each bad outcome, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

HELPS: Mapping[str, str] = {
    "write_repeated": "Use one idempotency key for all tries of a write, and look it up before a retry.",
    "extra_writes": "Give each step one idempotency key, and check before a write whether it was done.",
    "done_but_not_told": "Record each write when it succeeds, and report it even if a later call fails.",
    "not_done_but_told": "Make the answer from the tool's result, and read the state back after a write.",
    "error_as_result": "Check status and body of a tool's reply before they count as a result.",
    "write_on_greeting": "Ask for confirmation before a write that the user did not ask for.",
    "one_failure_ends_it": "Catch the failure: ask again a few times within a time limit, then report it.",
    "silent": "Treat an empty model reply as a failure: ask again, then report it.",
    "empty_reply": "Treat an empty model reply as a failure: ask again, then report it.",
    "error_as_answer": "Catch the error and say what was done and what was not.",
    "damaged_reply": "Check the finish reason and the form of a reply before it is used.",
    "damaged_call": "Do not execute a tool call whose arguments are incomplete.",
    "open_stream": "Treat a stream without its end event as failed.",
    "no_time_limit": "Set a read timeout on each client, and a deadline for the whole task.",
    "hasty_retry": "Wait as long as Retry-After says before the request is sent again.",
    "useless_retry": "Do not repeat requests that the server refused for good.",
    "layered_retries": "Let one layer retry; set the others' retries to 0.",
    "asked_again": "Stop after the same call has failed or answered alike a few times.",
    "dead_server": "Open a new session with the MCP server, or report that it is gone.",
    "false_success": "Make the answer from the tools' results, and check it before it says that all is done.",
    "duplicate": "Use one idempotency key for all tries of a write, and look it up before a retry.",
    "crash": "Catch the failure of a call, and report what was done and what was not.",
    "runaway": "Limit calls and time, and report what is left.",
    "foreign_secret": "Send a credential only to the host that it is for.",
}
