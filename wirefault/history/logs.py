"""``logs/agent.log`` and ``logs/info.log``: the readable history, one JSON object a line."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wirefault.core.errors import error_text
from wirefault.core.files import open_shared
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    Event,
    FaultsSet,
    Note,
    PipeServer,
    RecoveryTried,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    WentPastLab,
)

# Bidirectional overrides reorder a line, and no console can encode surrogates: remove both.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_control(text: str) -> str:
    """Remove control characters except line feeds and tabs, for the console."""
    return _CONTROL.sub("", text)


class JsonLog:
    """Appends objects to a file, one ``write`` per line, so that several processes can share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_shared(path.parent, path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, fields: Mapping[str, Any]) -> None:
        data = (json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            is_cut = os.write(self._file, data) != len(data)
        except OSError as error:
            error.filename = str(self._path)
            raise
        if is_cut:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Logs:
    """The two log files of one run. Times are ISO 8601 in UTC; ``clock`` is in seconds since the epoch."""

    def __init__(self, folder: Path, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._run_id = run_id
        self._clock = clock
        self.agent = JsonLog(folder / "agent.log")
        self.info = JsonLog(folder / "info.log")

    def close(self) -> None:
        self.agent.close()
        self.info.close()

    def tell(self, event: Event) -> None:
        """Write the info.log lines for this event, if any, with the event's time."""
        match event:
            case ToolTry():
                self._network(event)
            case ToolCalled(fallback_used=True):
                message = f"{event.tool} used the direct fallback"
                self.line("fallback", message, event.t, **_fields(event, "tool fallback_used ok"))
            case ToolCallRefused():
                message = f"{event.tool} not called: {event.why}"
                self.line("tool_call_refused", message, event.t, **_fields(event, "episode attempt tool why"))
            case RecoveryTried():
                fields = _fields(event, "episode attempt strategy number success seconds preserved link call")
                self.line("recovery", recovery_message(event), event.t, **fields)
            case AttemptArmed():
                for toxic in event.toxics:
                    self.line(
                        "fault",
                        f"{toxic.kind} {toxic.stream} armed on {toxic.link}",
                        event.t,
                        **_fields(event, "episode attempt"),
                        **_fields(toxic, "link kind stream"),
                        attributes=dict(toxic.attributes),
                    )
            case AttemptEnded():
                self.line(
                    "request_processed",
                    f"prompt {event.episode}, attempt {event.attempt}: {event.ended_by}",
                    event.end,
                    **_fields(event, "episode attempt ended_by error_type error_class"),
                    duration=round(event.ms / 1000, 4),
                )
            case WentPastLab():
                fields = _fields(event, "episode attempt host port protocol program count")
                self.line("warning", event.sentence, event.t, **fields)
            case PipeServer():
                fields = _fields(event, "episode attempt command")
                self.line("warning", f"past the lab: {event.text}", event.t, **fields)
            case FaultsSet():
                fields = _fields(event, "episode attempt number faults")
                self.line("faults_set", faults_set_message(event), event.t, **fields)
            case Note():
                self.line(event.level, event.message, event.t)

    def _network(self, event: ToolTry) -> None:
        self.line(
            "network",
            f"{event.tool} try {event.try_}: {event.error or event.status}",
            event.end,
            **_fields(event, "episode attempt tool link"),
            network_start=iso(event.start),
            network_end=iso(event.end),
            network_latency=round(event.ms / 1000, 6),
            **_fields(event, "status error route"),
            **{"try": event.try_},
        )

    def line(self, event: str, message: str, t: float | None = None, **fields: Any) -> None:
        """Write a line of info.log. ``t``: its time in seconds since the epoch; default: now."""
        moment = iso(self._clock() if t is None else t)
        named = {"time": moment, "event": event, "message": strip_control(message), "run_id": self._run_id}
        self.info.write(named | fields)


def _fields(record: object, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}


def faults_set_message(event: FaultsSet) -> str:
    """Return the message that faults were set on the lab."""
    return (
        f"configuration {event.number}: faults set on the lab: {', '.join(event.entries) or 'none'};"
        f" in force in prompt {event.episode}, attempt {event.attempt}"
    )


def recovery_message(event: RecoveryTried) -> str:
    """Return the sentence that describes an attempt to recover."""
    where = f" on {event.link}" if event.link else ""
    how = "recovered" if event.success else "did not help"
    notes = [event.detail, f"preserved: {event.preserved}" if event.preserved else ""]
    text = f"{event.strategy} {event.number}{where}: {how} after {event.seconds:.2f} s"
    return "; ".join([text, *filter(None, notes)])


def log_error(folder: Path, message: str) -> str | None:
    """Write an error outside any run to info.log; return the reason if that fails."""
    try:
        logs = Logs(folder, "")
        logs.line("error", message)
        logs.close()
    except OSError as error:
        return f"cannot write logs: {error_text(error)}"
    return None


def agent_line(
    run_id: str, prompt: str, ended: AttemptEnded, outcome: str | None, *, supersedes: bool = False
) -> dict[str, Any]:
    """Return one line of agent.log. ``outcome``: None if another attempt followed.

    ``error`` is the text of the error that ended it. ``error_class`` is its cause: the agent, a server that
    answered with an error, the network, or none. ``supersedes``: the attempt has a line already, whose
    outcome a late side effect changed. The last line of an attempt counts.
    """
    line = {
        "run_id": run_id,
        "episode": ended.episode,
        "prompt": strip_control(prompt),
        "response": strip_control(ended.response),
        "status": ended.report.status if ended.report else ended.ended_by,
        "outcome": outcome,
        "error_type": ended.error_type,
        "error": None if ended.error is None else strip_control(ended.error),
        "error_class": ended.error_class,
        "start_time": iso(ended.start),
        "end_time": iso(ended.end),
        "duration": round(ended.ms / 1000, 4),
        "prompt_attempt_no": ended.attempt,
    }
    return line | {"supersedes": True} if supersedes else line


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
