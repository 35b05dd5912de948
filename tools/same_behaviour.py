"""Compare two versions under the same seeds: outcomes, faults, draws and verdicts.

    python tools/same_behaviour.py record OUT --checkout FOLDER [--program NAME] [--seeds N] [--only KIND ...]
    python tools/same_behaviour.py compare BEFORE AFTER [--names FILE]

``record`` runs the demo under four settings, each experiment that ships, ``exec`` of three programs, an audit
and a tournament. For each run it writes a JSON file with the facts that must not change. It does not import
the package but reads the histories as text, so it can record an older version, too. ``compare`` prints every
difference and exits with 1 if there is one. FILE maps renamed keys and values: a line is ``old<TAB>new``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SHOP_PORT = 19431  # an episode's draws include the target of a request, so the port is fixed
RUN_TIMEOUT_S = 300

DEMOS = {
    "default": [],
    "fabricator": ["--toxic-prob", "1", "--persona", "fabricator"],
    "lost": ["--faults", "lost-replies", "--tool-limit", "3", "--prompt-limit", "2", "--idempotency", "off"],
    "moderate": ["--faults", "moderate", "--stream", "on", "--keep-alive", "on", "--tool-limit", "2"],
}
ORDER = f"http://127.0.0.1:{SHOP_PORT}/orders"
EMBEDDED = ["--toxiproxy", "embedded"]
PYTHON_ORDER = """
import sys, urllib.request
for _ in range(3):
    try:
        print(urllib.request.urlopen(sys.argv[1], data=b"pen", timeout=3).read().decode())
        break
    except OSError as error:
        print("failed:", type(error).__name__)
"""
NODE_ORDER = """
(async () => {
  for (let n = 0; n < 3; n++) {
    try {
      const order = {method: "POST", body: "pen", signal: AbortSignal.timeout(3000)};
      console.log(await (await fetch(process.argv[1], order)).text());
      break;
    } catch (error) { console.log("failed"); }
  }
})();
"""
PROGRAMS = {
    "curl": [
        *[
            "curl",
            "-s",
            "--max-time",
            "3",
            "--retry",
            "2",
            "--retry-all-errors",
            "--retry-delay",
            "0",
            "-d",
            "pen",
        ],
        ORDER,
    ],
    "python": [sys.executable, "-c", PYTHON_ORDER, ORDER],
    "node": ["node", "-e", NODE_ORDER, ORDER],
}
TOURNAMENT = """
title: What helps against lost replies
only: ["18"]
repeats: 3
method: {faults: lost-replies}
arms: {ships: {}, nothing: {recovery: none}}
"""
FAULT_FACTS = [
    *("id", "kind", "injected", "why_not", "content", "configuration", "entry", "source", "link", "attempt"),
    *("stage", "delivered"),
]
TOXIC_FACTS = ["link", "kind", "stream", "attributes", "entry"]
EVENTS = {
    "episode_judged": [
        *("episode", "attempt", "outcome", "world", "claim", "value", "flags", "attempts"),
        "first_attempt_outcome",
    ],
    "exchange": [
        *("episode", "attempt", "link", "method", "target", "fingerprint", "call", "try_", "status"),
        *("forwarded", "write"),
    ],
    "tool_call": [
        *("episode", "attempt", "reply", "index", "tool", "arguments", "call", "tries", "ok", "side_effect"),
    ],
    "attempt_ended": ["episode", "attempt", "ended_by", "report"],
    "attempt_armed": ["episode", "attempt"],
}

USUAL = {"world": "not_applicable", "claim": "done", "value": "not_applicable", "attempts": 1}

# of faults and toxics: left out by versions whose events are structs
USUAL_OF_PART = {"content": False, "why_not": None, "entry": ""}


class Shop(BaseHTTPRequestHandler):
    """A shop that takes orders by POST and numbers them."""

    orders = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Shop.orders += 1
        body = json.dumps({"order": Shop.orders}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def facts_of(folder: Path) -> dict[str, Any]:
    """Return the facts of all runs and experiments below ``folder``, without ids, times and sizes."""
    runs = {}
    logs = folder / ".wirefault" / "logs"
    if not logs.exists():  # a lab, or an earlier version
        logs = folder / "logs"
    for number, run in enumerate(sorted((logs / "runs").glob("*")), 1):
        name = f"{number}-{'-'.join(run.name.split('-')[3:])}"
        runs[name] = sorted(
            json.dumps(row, sort_keys=True) for file in run.glob("*.jsonl") for row in rows_of(file)
        )
    verdicts = [
        verdict_of(json.loads(file.read_text())) for file in sorted(logs.glob("experiments/*/verdict.json"))
    ]
    if any(logs.glob("experiments/*/audit.json")):  # which of its runs asks what is by chance
        runs = {"audit": sorted(row for rows in runs.values() for row in rows)}
    return {"runs": runs, "verdicts": verdicts}


def rows_of(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        facts = EVENTS.get(event["event"])
        if facts is None:
            continue
        row = {"event": event["event"]} | {key: event[key] for key in facts if key in event}
        row = {key: value for key, value in row.items() if value != USUAL.get(key)}
        if row.get("first_attempt_outcome") == row.get("outcome"):
            row.pop("first_attempt_outcome", None)
        if row.get("report"):
            row["report"] = {key: value for key, value in row["report"].items() if value != []}
        row["faults"] = [facts_of_part(fault, FAULT_FACTS) for fault in event.get("faults", [])]
        row["toxics"] = [facts_of_part(toxic, TOXIC_FACTS) for toxic in event.get("toxics", [])]
        yield row


def facts_of_part(part: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the facts of a fault or a toxic; the stage that it reached says whether it was injected."""
    facts = {
        name: part[name] for name in names if name in part and part[name] != USUAL_OF_PART.get(name, ...)
    }
    return facts if "stage" not in facts else {name: facts[name] for name in facts if name != "injected"}


def verdict_of(verdict: dict[str, Any]) -> dict[str, Any]:
    checks = [
        {key: check.get(key) for key in ("arm", "statement", "verdict")}
        for check in verdict.get("checks", [])
    ]
    arms = [{"arm": arm["arm"], "invalid": arm.get("invalid")} for arm in verdict.get("arms", [])]
    findings = [
        {key: finding.get(key) for key in ("severity", "finding", "questions", "seen", "of")}
        for finding in verdict.get("findings", [])
        if isinstance(finding, dict)
    ]
    return {
        "findings": findings,
        "verdict": verdict.get("verdict"),
        "rollback": verdict.get("rollback"),
        "checks": checks,
        "arms": arms,
    }


def jobs(checkout: Path, seeds: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield name, command line and the program's words of each run."""
    for seed in range(1, seeds + 1):
        for name, options in DEMOS.items():
            words = ["demo", "--seed", str(seed), "--no-charts", *EMBEDDED, *options]
            yield f"demo-{name}-{seed}", words, []
        for name, program in PROGRAMS.items():
            words = ["exec", "--faults", "lost-replies", "--seed", str(seed), *EMBEDDED]
            yield f"exec-{name}-{seed}", words, program
        yield f"audit-{seed}", ["audit", "--seed", str(seed), *EMBEDDED], PROGRAMS["python"]
        yield f"tournament-{seed}", ["run", "tournament.yaml", "--seed", str(seed), *EMBEDDED], []
    for file in sorted([*checkout.glob("experiments/*.yaml"), *checkout.glob("experiments/*/[a-z]*.yaml")]):
        text = file.read_text(encoding="utf-8")
        if "hypothesis:" in text and "frameworks" not in file.parts:
            for seed in range(1, seeds + 1):
                yield (
                    f"experiment-{file.stem}-{seed}",
                    ["run", str(file), "--seed", str(seed), *EMBEDDED],
                    [],
                )


def record(out: Path, checkout: Path, program: str, seeds: int, only: list[str]) -> None:
    """Run every job in a fresh folder and write its facts; skip jobs that are recorded already."""
    out.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", SHOP_PORT), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = str(checkout / ".venv" / "bin" / program)
    environ = {key: value for key, value in os.environ.items() if not key.endswith("_PROXY")}
    for name, words, after in jobs(checkout, seeds):
        target = out / (name.replace("/", "_") + ".json")
        if target.exists() or (only and not any(kind in name for kind in only)):
            continue
        Shop.orders = 0
        with tempfile.TemporaryDirectory() as folder:
            try:
                Path(folder, "tournament.yaml").write_text(TOURNAMENT, encoding="utf-8")
                line = [command, *words, "--out", folder, *(["--", *after] if after else [])]
                done = subprocess.run(
                    line, cwd=folder, env=environ, capture_output=True, timeout=RUN_TIMEOUT_S, check=False
                )
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = -1
            facts = {"code": code, **facts_of(Path(folder))}
        target.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        print(name, code, flush=True)
    server.shutdown()


def compare(before: Path, after: Path, names: dict[str, str]) -> int:
    """Print the differences between the two folders; return 1 if there is any."""
    differing = 0
    files = sorted({path.name for path in (*before.glob("*.json"), *after.glob("*.json"))})
    episodes = 0
    for name in files:
        sides = [folder / name for folder in (before, after)]
        if not all(side.exists() for side in sides):
            print(f"{name}: only {'after' if sides[1].exists() else 'before'}")
            differing += 1
            continue
        old, new = (mapped(json.loads(side.read_text(encoding="utf-8")), names) for side in sides)
        episodes += sum('"episode_judged"' in row for rows in new["runs"].values() for row in rows)
        rows = list(differences(old, new))
        differing += bool(rows)
        for row in rows[:6]:
            print(f"{name}: {row}")
    print(f"{len(files)} runs, {episodes} episodes, {differing} runs differ")
    return int(differing > 0)


def mapped(value: Any, names: dict[str, str]) -> Any:
    """Return the value with mapped names, and with whole numbers in one form: 83.0 is 83."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {names.get(key, key): mapped(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, names) for item in value]
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(mapped(json.loads(value), names), sort_keys=True)
    return names.get(value, value) if isinstance(value, str) else value


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for key in ("code", "verdicts"):
        if old[key] != new[key]:
            yield f"{key}: {old[key]} -> {new[key]}"
    if list(old["runs"]) != list(new["runs"]):
        yield f"runs: {list(old['runs'])} -> {list(new['runs'])}"
    for run in sorted(old["runs"].keys() & new["runs"].keys()):
        gone, come = (Counter(side["runs"][run]) for side in (old, new))
        yield from (f"{run}: - {row}" for row in sorted((gone - come).elements()))
        yield from (f"{run}: + {row}" for row in sorted((come - gone).elements()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--checkout", type=Path, required=True, help="a checkout with its .venv")
    recording.add_argument("--program", default="wirefault", help="the name of its command")
    recording.add_argument("--seeds", type=int, default=20)
    recording.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="runs with one of these in their names: demo, exec, experiment-short",
    )
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--names", type=Path, help="renamed keys and values: old<TAB>new, a line each")
    chosen = parser.parse_args()
    if chosen.command == "record":
        record(chosen.out, chosen.checkout.resolve(), chosen.program, chosen.seeds, chosen.only)
        return 0
    lines = chosen.names.read_text(encoding="utf-8").splitlines() if chosen.names else []
    return compare(chosen.before, chosen.after, dict(line.split("\t")[:2] for line in lines if "\t" in line))


if __name__ == "__main__":
    sys.exit(main())
