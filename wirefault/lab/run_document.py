"""The document with a launcher's instructions for a run's process: JSON in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from wirefault.core.files import write_whole
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import PromptsSource

RUN_PROCESS = "wirefault.cli.run_process"
"""The module that executes a document; it shows the run on the console, so it is below this room."""


class RunDocument(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One run of prompts in a lab that is up."""

    run_id: str
    settings: dict[str, Any]
    """All settings, so that no other source applies."""
    source: PromptsSource
    """Its prompts: a file, or texts, and the selection."""
    subject: str = ""
    """Replaces the wiring's subject."""
    faults_name: str = ""
    """The fault set as the user named it."""
    is_part: bool = False
    """Other runs have the other prompts; the launcher prints the summary."""
    is_portion: bool = False
    """The prompts were dealt from a larger file, so their places say nothing."""
    control_in: str = ""
    """The experiment with a control, beside which the run is judged later."""
    all_prompts: str = ""
    """A file with all prompts, these among them, for their numbers on the console."""
    as_json: bool = False
    """End with the summary as one JSON object on standard output."""
    as_is: bool = False
    """The subject has this process's input."""
    on_stderr: bool = False
    """The console is standard error, since standard output is the subject's."""
    verbose: bool = False
    """Show the stages of each fault, and how the lab did."""
    shows_why: bool = True
    """End with the line about the worst episode; else the launcher has more to show before it."""

    def write(self, path: Path) -> None:
        """Raises ``OSError``."""
        write_whole(path, encode(self))


def run_document(run_id: str, settings: Settings, source: PromptsSource, **more: Any) -> RunDocument:
    """The document with these settings; ``more`` are its other fields."""
    return RunDocument(run_id=run_id, settings=settings.model_dump(mode="json"), source=source, **more)
