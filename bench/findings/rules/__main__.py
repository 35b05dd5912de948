"""Run the cases, print misses and false positives, and write ``scores.json``."""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from fnmatch import fnmatchcase
from pathlib import Path

from bench.findings.rules.cases import load_cases
from bench.findings.rules.playing import play
from bench.findings.rules.scores import SCORES, score_of, write_scores


def main() -> int:
    """Return 0 if the findings match the label of every case."""
    parser = ArgumentParser("python -m bench.findings.rules", description=__doc__)
    parser.add_argument(
        "--only",
        default="*",
        help="run only these cases, or the cases of these rules: comma-separated patterns",
    )
    parser.add_argument("--folder", default="", help="keep the runs in this new folder")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cases = [
        case
        for case in load_cases()
        if any(fnmatchcase(name, one) for one in options.only.split(",") for name in (case.name, case.rule))
    ]
    if not cases:
        parser.error(f"--only: no case matches {options.only!r}")
    with tempfile.TemporaryDirectory(prefix="rules-") as temporary:
        folder = Path(options.folder or temporary) / "runs"
        played = play(cases, folder.resolve(), options.workers)
    for one in played:
        for rule in one.missed:
            print(f"missed   {one.case.name}: {rule}" + (f" (invalid: {one.invalid})" if one.invalid else ""))
        for rule in one.wrong:
            print(f"wrong    {one.case.name}: {rule}: {one.texts[rule]}")
        if not one.fault_delivered:
            print(f"no fault {one.case.name}: its fault was not delivered")
        if one.invalid:
            print(f"invalid  {one.case.name}: {one.invalid}")
    reported = {one.case.name: [*one.texts] for one in played}
    print(score_of(cases, reported).sentence)
    if options.only == "*":
        write_scores(cases, reported)
        print(f"wrote {SCORES}; `make docs` writes the page")
    return 0 if all(not one.missed and not one.wrong for one in played) else 1


if __name__ == "__main__":
    sys.exit(main())
