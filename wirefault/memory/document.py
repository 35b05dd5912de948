"""The memory as one document: what its page and ``wirefault memory show --json`` have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from wirefault.core.errors import UserError
from wirefault.experiments.saved import load_saved
from wirefault.experiments.search.chain import Chain, chain_of
from wirefault.memory.episodes import Remembered
from wirefault.memory.knowledge import CONFIDENCE, Knowledge, known_components
from wirefault.memory.learnings import learnings
from wirefault.memory.planner.choose import Proposal
from wirefault.memory.planner.evidence import prompt_of
from wirefault.memory.planner.planner import Planner
from wirefault.memory.store import Memory

MAX_NEXT = 8
"""Proposals of the planner."""


@dataclass(frozen=True)
class MemoryDocument:
    """Knowledge by component and fault, the next experiments, and the chains that led to earlier ones."""

    episodes: Sequence[Remembered]
    known: Sequence[Knowledge]
    not_remembered: Sequence[str]
    proposals: Sequence[Proposal]
    """The best next experiments for the prompts of the latest recording without faults."""
    chains: Mapping[str, Chain]
    """By the id of a search for the next experiments, oldest first."""

    @property
    def sources(self) -> dict[str, str]:
        """The recording of each run."""
        return {each.run_id: each.source for each in self.episodes}

    def as_json(self) -> dict[str, Any]:
        sources = self.sources
        return {
            "counts": {
                "episodes": len(self.episodes),
                "recordings": len(set(sources.values())),
                "components": len({each.component for each in self.known}),
            },
            "confidence": CONFIDENCE,
            "components": [knowledge_json(each, sources) for each in self.known],
            "not_remembered": list(self.not_remembered),
            "next": [
                {
                    "text": each.cell.text,
                    "link": each.cell.link,
                    "reason": each.reason,
                    "because": each.because,
                    "risk": asdict(each.risk),
                }
                for each in self.proposals
            ],
            "chains": [{"search": name, **chain.as_json()} for name, chain in self.chains.items()],
        }


def memory_document(
    memory: Memory, logs: Path, environ: Mapping[str, str], not_remembered: Sequence[str]
) -> MemoryDocument:
    """Read the memory, and plan the next experiments. Raises ``InputError``."""
    episodes = memory.episodes()
    planner = Planner(episodes, memory.own_outcomes())
    proposals = planner.proposals(planner.cells(latest_prompts(episodes)))
    return MemoryDocument(
        episodes,
        known_components(episodes),
        not_remembered,
        list(islice(proposals, MAX_NEXT)),
        recorded_chains(logs, memory.sources(), environ),
    )


def knowledge_json(known: Knowledge, sources: Mapping[str, str]) -> dict[str, Any]:
    """Return knowledge with its intervals and its learnings. ``sources``: the recording of each run."""
    shares = {"with_fault": known.with_fault, "without": known.without}
    return {
        **asdict(known),
        **{
            name: {**asdict(share), "value": share.rate, "interval": share.interval(CONFIDENCE)}
            for name, share in shares.items()
        },
        "learnings": [
            {"text": each.text, "runs": each.runs, "recordings": recordings_of(each.runs, sources)}
            for each in learnings(known)
        ],
    }


def recordings_of(runs: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """Return the recordings of the runs, each once."""
    return list(dict.fromkeys(sources.get(run, run) for run in runs))


def latest_prompts(episodes: Iterable[Remembered]) -> list[str]:
    """Return the ids of the prompts of the latest recording that has episodes without faults."""
    calm = [each for each in episodes if each.calls and not each.faults]
    return list(dict.fromkeys(prompt_of(each.key) for each in calm if each.source == calm[-1].source))


def recorded_chains(logs: Path, sources: Iterable[str], environ: Mapping[str, str]) -> dict[str, Chain]:
    """Return the chains of the recorded searches for the next experiments; others are left out."""
    chains = {}
    for name in sources:
        try:
            search = load_saved(logs, name, environ).plan.search
        except (UserError, OSError, ValueError):  # a lone run, or removed since
            continue
        if search.get("kind") == "next":
            steps = search.get("steps", ())
            chains[name] = chain_of(search, sum(len(step["outcomes"]) for step in steps))
    return chains
