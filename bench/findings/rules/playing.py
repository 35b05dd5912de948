"""Run all cases in one experiment: each case is a prompt, and its faults act only in its episodes.

The controls before and after the faults have the two episodes for the comparison.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.findings.rules.cases import Case
from bench.findings.rules.servers import case_servers
from wirefault.core.sockets import is_loopback
from wirefault.experiments.saved import load_saved
from wirefault.judging.summary import summarise

# starts the prompt's client
_START = """
import json, os, pathlib, sys
argv = json.loads(pathlib.Path(__file__).with_name("clients.json").read_text("utf-8"))[sys.argv[1]]
os.execvp(argv[0], argv)
"""
_ATTEMPT_S = 20
_EXPERIMENT_TIMEOUT_S = 3600


@dataclass
class Played:
    """Findings about a case in any of its episodes."""

    case: Case
    texts: dict[str, str] = field(default_factory=dict)
    """One finding by rule. Notes are omitted, except if the rule is ``past_the_lab``."""
    invalid: str = ""
    """Reason why its episode with faults is invalid."""
    fault_delivered: bool = True

    @property
    def missed(self) -> list[str]:
        return sorted(self.case.fires - self.texts.keys())

    @property
    def wrong(self) -> list[str]:
        """Rules that reported it by mistake."""
        return sorted(self.texts.keys() - self.case.fires)


def play(cases: Sequence[Case], folder: Path, workers: int = 2) -> list[Played]:
    """Run the cases in the folder. Raises ``RuntimeError`` with the output if the experiment did not run."""
    played = [
        *_play(cases, folder / "wired", workers, tap=False),
        *_play(cases, folder / "tapped", 1, tap=True),
    ]
    order = [case.name for case in cases]
    return sorted(played, key=lambda one: order.index(one.case.name))


def _play(cases: Sequence[Case], folder: Path, workers: int, *, tap: bool) -> list[Played]:
    chosen = [case for case in cases if case.tap == tap]
    if not chosen:
        return []
    folder.mkdir(parents=True)
    with case_servers(chosen) as links:
        _write_files(chosen, folder, links, tap=tap)
        environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environ |= {
            "OPENAI_API_KEY": "made-up",
            "ANTHROPIC_API_KEY": "made-up",
            "LOGS_DIR": str(folder / "logs"),
            "SHOP_DIRECT": links["shop"]["upstream"],
        }
        command = [sys.executable, "-m", "wirefault", "run", "x.yaml", "--toxiproxy", "embedded", "--json"]
        done = subprocess.run(
            [*command, "--workers", str(workers)],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_EXPERIMENT_TIMEOUT_S,
        )
    try:
        result = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(
            f"exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        ) from None
    return _read(chosen, folder, result)


def _write_files(cases: Sequence[Case], folder: Path, links: dict[str, Any], *, tap: bool) -> None:
    starter = folder / "start.py"
    starter.write_text(_START, encoding="utf-8")
    argv = {case.prompt: case.argv for case in cases}
    (folder / "clients.json").write_text(json.dumps(argv), encoding="utf-8")
    subject = {"command": [sys.executable, str(starter), "{prompt}"], "answer": "stdout"}
    hosts = [urlsplit(link["upstream"]).hostname for link in links.values() if "upstream" in link]
    foreign = [host for host in hosts if host and not is_loopback(host)]
    wiring: dict[str, Any] = {"links": links, "subject": subject, "allow": foreign}
    if tap:
        wiring["intercept"] = {"tap": "proxy"}
    (folder / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
    faults = [
        {"id": f"{case.name}-{number}", **fault, "only": {**fault.get("only", {}), "episodes": [case.name]}}
        for case in cases
        for number, fault in enumerate(case.faults)
    ]
    # an experiment needs a fault, but no selected case may have one
    faults.append({"fault": "delay", "links": "shop", "only": {"path": "/nowhere"}})
    experiment = {
        "title": "Clients that do it, and clients that nearly do",
        "wiring": "wirefault.yaml",
        "prompts": [{"id": case.name, "prompt": case.prompt} for case in cases],
        "settings": {"attempt_time": _ATTEMPT_S, "bodies": "on", "prompt_limit": 1},
        "seed": 1,
        "steady_state": ["success_rate >= 0"],
        "method": {"faults": {"faults": faults}},
        "hypothesis": ["success_rate >= 0"],
    }
    (folder / "x.yaml").write_text(json.dumps(experiment), encoding="utf-8")


def _read(cases: Sequence[Case], folder: Path, result: dict[str, Any]) -> list[Played]:
    saved = load_saved(folder / "logs", result["experiment"], {"LOGS_DIR": str(folder / "logs")})
    findings: defaultdict[str, dict[str, str]] = defaultdict(dict)
    invalid: dict[str, str] = {}
    delivered: set[str] = set()
    for arm in saved.plan.arms:
        summary = summarise(saved.history_of(arm).events)
        for finding in [*summary.findings, *saved.arm_result(arm).differences]:
            if finding.severity != "note" or finding.rule == "past_the_lab":
                findings[finding.episode].setdefault(finding.rule, finding.text)
        for episode in summary.episodes:
            if not arm.is_control:
                invalid |= {episode.episode: episode.why} if episode.outcome == "invalid" else {}
                delivered |= {episode.episode for fault in episode.faults if fault.delivered}
    return [
        Played(
            case, findings[case.name], invalid.get(case.name, ""), case.name in delivered or not case.faults
        )
        for case in cases
    ]
