"""Record the model's replies: ``python -m tests.e2e.real_model.record MODEL_BASE_URL FOLDER [RUN ...]``.

docs/model-on-your-machine.md says how to serve the model. Each run has a folder of cassettes. Without RUN all
are recorded. ``--pack FOLDER`` makes them the archive that the tests replay. ``--read`` replays that and
prints what the agent did in each episode, without the judge's outcome, to label it by hand. ``--measure``
replays it and writes the judge's outcomes into the labels, and the arms into docs/mitigations.md.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measured import read_cells, write_cells
from bench.mitigations.__main__ import MEASURED, PAGE, as_json, page_text
from bench.mitigations.cells import CALM
from tests.e2e.lab import LabRun, SharedLab, in_folder
from tests.e2e.real_model.runs import (
    CANARY,
    FAMILY,
    Label,
    facts_of_arm,
    read_labels,
    recording_of,
    write_labels,
)
from tests.support import unpack
from wirefault.history.events import AttemptEnded, ToolCalled, ToolCallRefused
from wirefault.history.run_events import WorldRead
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration

ARCHIVE = Path(__file__).with_name("cassettes.tar.xz")


@contextmanager
def own_lab() -> Iterator[SharedLab]:
    with tempfile.TemporaryDirectory() as home:
        configuration = in_folder(load_configuration(os.environ), Path(home))
        with Lab(configuration, Choice("embedded")) as lab:
            yield SharedLab(lab, configuration)


def record(url: str, folder: Path, names: list[str]) -> None:
    of_arms = [recording_of(arm, trial) for arm in FAMILY.arms for trial in (CALM, *FAMILY.trials)]
    with own_lab() as lab:
        for recording in (*CANARY, *of_arms):
            if not names or recording.name in names:
                run = recording.run(lab, "record", str(folder / recording.name), model_base_url=url)
                print(recording.name, json.dumps(run.outcomes), flush=True)


def pack(folder: Path) -> None:
    """Write all cassettes into the archive, equal for equal cassettes."""
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for path in sorted(folder.rglob("*.json")):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(entry, file)


def read() -> None:
    with own_lab() as lab, tempfile.TemporaryDirectory() as folder:
        unpack(ARCHIVE, Path(folder))
        for recording in CANARY:
            if (Path(folder) / recording.name).exists():
                run = recording.run(lab, "replay", f"{folder}/{recording.name}")
                for episode in run.summary.episodes:
                    print(
                        f"\n== {recording.name}: {episode.prompt}",
                        *_transcript(run, episode.episode),
                        sep="\n",
                    )


def _transcript(run: LabRun, episode: str) -> Iterator[str]:
    for event in run.record.of_episode(episode):
        if isinstance(event, ToolCalled):
            outcome = event.result if event.ok else f"FAILED {event.result}"
            yield f"  {event.tool} {json.dumps(event.arguments, ensure_ascii=False)} -> {outcome[:400]}"
        elif isinstance(event, ToolCallRefused):
            yield f"  refused: {event}"
        elif isinstance(event, AttemptEnded):
            yield f"  ENDED by {event.ended_by}: {event.report or event.response or event.error}"
        elif isinstance(event, WorldRead):
            yield f"  WORLD {event}"


def measure() -> None:
    with own_lab() as lab, tempfile.TemporaryDirectory() as folder:
        unpack(ARCHIVE, Path(folder))
        labels = {(label.run, label.prompt): label for label in read_labels()}
        judged = []
        for recording in CANARY:
            run = recording.run(lab, "replay", f"{folder}/{recording.name}")
            for episode in run.summary.episodes:
                label = labels.get((recording.name, episode.prompt))
                fair, did = (label.fair, label.did) if label else ([], "")
                judged.append(Label(recording.name, episode.prompt, did, fair, str(episode.outcome)))
        write_labels(judged)
        facts = {arm: facts_of_arm(lab, arm, Path(folder)) for arm in FAMILY.arms}
    write_cells(MEASURED, {**read_cells(MEASURED), FAMILY.name: as_json(FAMILY, facts)})
    PAGE.write_text(page_text(), encoding="utf-8")


def main() -> None:
    match sys.argv[1:]:
        case ["--pack", folder]:
            pack(Path(folder))
        case ["--read"]:
            read()
        case ["--measure"]:
            measure()
        case [url, folder, *names]:
            record(url, Path(folder), names)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
