"""Addresses of pages, and of the episodes on them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wirefault.audit.options import is_audit
from wirefault.experiments.index import PAGES
from wirefault.experiments.recorded import RecordedArm, Recording, recording_of
from wirefault.experiments.saved import SavedExperiment

PAGE = "page.html"


def episode_anchor(number: int) -> str:
    """Return the id of an episode's element on its page. ``number``: its place there, from 1."""
    return f"ep/{number}"


def page_path(logs: Path, name: str) -> Path:
    """Return the path of a recording's page below the logs."""
    return logs / PAGES / name / PAGE


def audit_order(keys: Iterable[str]) -> list[str]:
    """Return the episodes of an audit as its page has them: the clean runs, then the questions."""
    return sorted(keys, key=lambda key: (not key.startswith("clean"), key))


def page_links(saved: SavedExperiment) -> dict[tuple[str, str], str]:
    """Return ``PATH#ep/N`` for each recorded episode, by arm and key. Raises ``InputError``."""
    path = page_path(saved.logs, saved.experiment_id)
    places = _places(recording_of(saved), in_audit=is_audit(saved))
    return {place: f"{path}#{episode_anchor(number)}" for number, place in enumerate(places, start=1)}


def recorded_link(recording: Recording, arm: RecordedArm, episode: str, event: str = "") -> str:
    """Return ``PATH#ep/N`` of an episode, or ``PATH#ep/N/EVENT``; empty if its recording has no page.

    ``event``: an id such as ``RUN/gateway-0:17``.
    """
    path = page_path(arm.logs, recording.id)
    in_audit = recording.experiment is not None and is_audit(recording.experiment)
    places = _places(recording, in_audit=in_audit)
    if not path.is_file() or (arm.name, episode) not in places:
        return ""
    name = f"/{event.rpartition('/')[2]}" if event else ""
    return f"{path}#{episode_anchor(places.index((arm.name, episode)) + 1)}{name}"


def _places(recording: Recording, *, in_audit: bool) -> list[tuple[str, str]]:
    return [
        (name, key)
        for name, arm in recording.arms.items()
        for key in (audit_order(arm.episodes) if in_audit else arm.episodes)
    ]
