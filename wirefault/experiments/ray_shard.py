"""What is flown of an arm on one machine of a Ray cluster: shipped there, flown in a lab, shipped back.

Nothing here imports Ray: a shard is flown in the same way wherever it is called.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.exit_codes import LAB_FAILED
from wirefault.core.user_errors import UserError
from wirefault.lab.demo import in_own_lab
from wirefault.lab.process import ProcessLog
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.settings.configuration import SETTINGS_VARIABLE, load_configuration
from wirefault.wiring.wiring import lab_wiring, wiring_of


@dataclass(frozen=True)
class Shard:
    """One run to fly: all that another machine needs to know. It holds no secret: keys stay in environments.

    ``settings`` and ``prompts`` are JSON; ``wiring`` as ``Wiring.dump`` gives it.
    """

    run_id: str
    settings: str
    wiring: Mapping[str, Any]
    prompts: str
    toxiproxy: str


@dataclass(frozen=True)
class ShardResult:
    """``files`` of the run's folder by their names in it; ``printed`` by the run; ``said`` by the lab."""

    code: int
    files: Mapping[str, bytes]
    printed: bytes
    said: tuple[str, ...]


def run_shard(shard: Shard) -> ShardResult:
    """Flies it in a lab of its own, which lives in a temporary folder and ends with this process."""
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="wirefault-shard-") as folder:
        try:
            code = _fly_in(Path(folder), shard, said)
        except UserError as error:
            code = LAB_FAILED
            said.append(f"error: {error}")
        run = Path(folder) / "logs" / "runs" / shard.run_id
        kept = (path for path in run.rglob("*") if path.is_file())
        files = {path.relative_to(run).as_posix(): path.read_bytes() for path in kept}
        printed = _printed_in(Path(folder))
        return ShardResult(code, files, printed.read_bytes() if printed.is_file() else b"", tuple(said))


def _fly_in(folder: Path, shard: Shard, said: list[str]) -> int:
    home = shard.wiring.get("folder", "")
    if home and not Path(home).is_dir():
        raise UserError(f"{home}: the folder of the wiring must be on each machine, under the same path")
    prompts = folder / "prompts.json"
    prompts.write_text(shard.prompts, encoding="utf-8")
    environ = {
        **os.environ,
        SETTINGS_VARIABLE: shard.settings,
        "PROMPTS_FILE": str(prompts),
        "STATE_DB": str(folder / "state" / "state.db"),
        "EFFECTS_DB": str(folder / "state" / "effects.db"),
        "LOGS_DIR": str(folder / "logs"),
    }
    wiring = wiring_of(shard.wiring) if shard.wiring else lab_wiring()
    configuration = load_configuration(environ, wiring=wiring)
    toxiproxy = choose_toxiproxy(shard.toxiproxy, environ)
    log = ProcessLog(folder, _printed_in(folder))
    words = [f"--run-id={shard.run_id}"]
    return in_own_lab(configuration, toxiproxy, said.append, lambda lab: lab.run(configuration, words, log))


def _printed_in(folder: Path) -> Path:
    return folder / "printed.txt"


def put_down(flown: ShardResult, runs: Path, run_id: str) -> None:
    """Puts the run among the others, whole or not at all. Raises ``OSError``."""
    if not flown.files:
        return
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".arriving-", dir=runs) as folder:
        arriving = Path(folder) / run_id
        for name, content in flown.files.items():
            path = arriving / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        arriving.rename(runs / run_id)
