"""Every option of the experiment commands changes the output once, and is refused if invalid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from tests.experiments.paper_lab import EXPERIMENT, PaperLab
from tests.experiments.test_each_key import WIRING
from wirefault.cli.main import main
from wirefault.settings.settings import NAMES

COMMANDS = ("run", "plan", "report", "compare", "list", "show", "faults draw")
RUN = "run exp.json --toxiproxy embedded --json"
CLAIM = RUN.replace("exp.json", "claim.json")
BOTH = "run both --toxiproxy embedded --json"
OUT = f"{RUN} --out o"
BROKEN_OFF = "run limited.json --toxiproxy embedded"
AGAIN = "run --again latest --toxiproxy embedded"
RESUME = "run --resume latest --toxiproxy embedded"
LEVELS = "run exp.json --levels 1 --repeats 1 --toxiproxy embedded"
PLAN = "plan exp.json"
DRAW = "faults draw found --n 1"
# --fail-on: by tests/e2e/test_one_policy.py and tests/judging/test_ending.py
# covered by tests/report/test_timeline.py, whose lines are long enough
OF_WIRINGS = ("--subject", "--prompts", "--prompt", "--match")
ELSEWHERE = {
    "show": ("--full",),
    "report": ("--html", "--md", "--otlp", "--fail-on"),
    "compare": ("--html", "--baseline"),
    "run": (*OF_WIRINGS, "--playbooks", "--link", "--charts", "--lab", "--resume", "--again", "--fail-on"),
}

Sees = Callable[[PaperLab], object]


@dataclass(frozen=True)
class Case:
    """The ``words`` show ``seen`` with the ``option`` and its value, and do not without it.

    A ``wrong`` value is refused with ``message``; flags have none. ``before`` is the command to call first.
    """

    words: str
    option: str
    sees: Sees
    seen: object
    wrong: str = ""
    message: str = ""
    before: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Command and option."""
        words = self.words.split()
        return " ".join(words[: 2 if words[0] == "faults" else 1]), self.option.split()[0]

    def __str__(self) -> str:
        return " ".join(self.place)


def run_options(words: str, before: str = "") -> list[Case]:
    """The options of all commands that run."""
    calm = words.replace(" --toxiproxy embedded", "")
    return [
        Case(
            calm,
            "--toxiproxy http://127.0.0.1:1",
            lambda h: h.how.toxiproxy.url,
            "http://127.0.0.1:1",
            "ftp://x",
            "give auto, embedded, or a URL",
            before=before,
        ),
        Case(words, "--verbose", lambda h: h.how.verbose, True, before=before),
        Case(
            words,
            "--engine ray",
            lambda h: h.engine.name,
            "ray",
            "moon",
            "'moon' is not one of",
            before=before,
        ),
        Case(words, "--workers 3", lambda h: h.how.workers, 3, "0", "must be auto or 1 to 64", before=before),
    ]


def of_changes(words: str) -> list[Case]:
    """The options that change a run."""
    return [
        Case(words, "--seed 9", lambda h: h.saved.plan.seed, 9, "x", "'x' is not a valid integer"),
        Case(words, "--repeats 3", lambda h: len(h.prompts), 6, "0", "repeats"),
        Case(
            words,
            "--set persona=quitter",
            persona,
            "quitter",
            "persna=x",
            "did you mean 'persona'?",
        ),
    ]


def exists(name: str) -> Sees:
    return lambda h: (h.folder / name).exists()


def printed(text: str) -> Sees:
    return lambda h: text in " ".join(h.output.split())


def drawn(text: str) -> Sees:
    """Whether the experiments that fuzz wrote contain that text."""
    return lambda h: any(text in path.read_text("utf-8") for path in (h.folder / "found").glob("*.yaml"))


def persona(h: PaperLab) -> object:
    return h.saved.plan.arms[0].settings.persona


def prompts(h: PaperLab) -> object:
    return h.prompts


def retries(h: PaperLab) -> object:
    return h.saved.retry_invalid


def run_count(h: PaperLab) -> object:
    return len(h.engine.engine_calls)


def is_object(h: PaperLab) -> bool:
    assert h.result is not None
    return h.result.stdout.startswith(("{", "["))


CASES = [
    *run_options(RUN),
    *of_changes(RUN),
    Case(RUN, "--out o", exists("o/logs/experiments"), True, "exp.json", "exp.json"),
    Case(RUN, "--junit j.xml", exists("j.xml"), True, "no/j.xml", "no folder no"),
    Case(RUN, "--reports r", exists("r/summary.md"), True, "exp.json", "exp.json: File exists"),
    Case(RUN, "--output o.json", exists("o.json"), True, "no/o.json", "no folder no"),
    Case(BOTH, "--fail-fast", lambda h: len(h.object.get("of", [1])), 1),
    Case(RUN, "--dry-run", lambda h: h.engine.ran, []),
    Case("run both --toxiproxy embedded --json", "--recursive", lambda h: len(h.object.get("of", [1])), 3),
    Case(RUN, "--persona quitter", persona, "quitter", "x", "settings.persona: "),
    Case(
        BOTH,
        "--filter A",
        lambda h: h.object.get("title"),
        "a",
        "c",
        "no experiment has this title or tag; tags: quick",
    ),
    Case(RUN, "--tag nightly", lambda h: h.saved.plan.experiment.tags[-1:], ["nightly"]),
    Case(RUN, "--retry-invalid 1", retries, 1, "-1", "-1 is not in the range"),
    Case(CLAIM, "--until-decided", lambda h: h.saved.plan.sequential is not None, True),
    Case(
        f"{CLAIM} --until-decided",
        "--max-episodes 8",
        lambda h: len(h.saved.plan.prompts),
        8,
        "1",
        "must be at least 2",
    ),
    Case(RUN, "--max-time 1min", lambda h: h.saved.plan.experiment.limits.time, 60, "x", "limits.time"),
    Case(RUN, "--max-cost 2", lambda h: h.saved.plan.experiment.limits.cost, 2, "0", "0 is not in the range"),
    Case(RUN, "--only two", prompts, ["two"], "three", "unknown id"),
    Case("run exp.json --toxiproxy embedded", "--json", is_object, True),
    Case(PLAN, "--only two", printed("4 arms of 1 episode each"), True, "three", "unknown id"),
    Case(
        "plan both",
        "--filter a",
        lambda h: h.output.count("episodes each"),
        1,
        "c",
        "no experiment has this title or tag",
    ),
    Case(PLAN, "--seed 9", printed("seed 9"), True, "-1", "seed"),
    Case(PLAN, "--repeats 3", printed("4 arms of 6 episodes each"), True, "0", "repeats"),
    Case("plan claim.json", "--until-decided", printed("until decided: looks after"), True),
    Case(
        "plan claim.json --until-decided",
        "--max-episodes 8",
        printed("at most 8 episodes of an arm"),
        True,
        "1",
        "must be at least 2",
    ),
    Case(PLAN, "--max-time 1min", printed("no episodes start after 60 s"), True, "x", "limits.time"),
    Case(PLAN, "--max-cost 2", printed("no episodes start after 2 USD"), True, "0", "0 is not in the range"),
    Case(PLAN, "--set chaos_level=0.5", printed("25 %"), True, "chaos_level=x", "settings.chaos_level: "),
    Case(
        "report latest",
        "--out o",
        printed("On paper"),
        True,
        "no",
        "no runs; start one with",
        before=OUT,
    ),
    Case("report latest", "--verbose", printed("signed by this user"), True, before=RUN),
    Case("report latest", "--json", is_object, True, before=RUN),
    Case("report latest", "--junit -", printed("<testsuite"), True, before=RUN),
    Case("report latest", "--junit j.xml", exists("j.xml"), True, "no/j.xml", "No such file", before=RUN),
    Case("compare latest latest", "--arm a", lambda h: "control" in h.output, False, "c", "'c'", before=RUN),
    Case(
        "compare latest latest",
        "--out o",
        printed("not shown to be worse"),
        True,
        "no",
        "no runs; start one with",
        before=OUT,
    ),
    Case("compare latest latest", "--json", is_object, True, before=RUN),
    Case(
        "compare latest latest",
        "--fail-on degradation>5%",
        printed("passed"),
        True,
        "p95>3",
        "unknown condition 'p95>3'",
        before=RUN,
    ),
    *run_options(AGAIN, before=RUN),
    Case(AGAIN, "--out o", run_count, 1, "no", "no runs; start one with", before=OUT),
    Case(AGAIN, "--retry-invalid 1", retries, 1, "-1", "-1 is not in the range", before=RUN),
    Case(AGAIN, "--episode two", prompts, ["two"], "three", "--episode three", before=RUN),
    Case(
        AGAIN,
        "--arm a",
        lambda h: h.arms,
        ["control", "a", "control-after"],
        "c",
        "no such arm with faults; valid: a, b",
        before=RUN,
    ),
    *run_options(RESUME, before=BROKEN_OFF),
    Case(RESUME, "--out o", run_count, 1, "no", "no runs; start one with", before=f"{BROKEN_OFF} --out o"),
    Case(RESUME, "--retry-invalid 1", retries, 1, "-1", "-1 is not in the range", before=BROKEN_OFF),
    Case(
        "list",
        "--out o",
        printed("On paper"),
        True,
        "no",
        "no runs or experiments there",
        before=OUT,
    ),
    Case("show latest --arm a", "--verbose", printed("signed by this user"), True, before=RUN),
    Case("show latest", "--arm a", printed("1/2"), True, "c", "has no arm 'c'", before=RUN),
    Case("show latest --arm a", "--out o", printed("1/2"), True, "no", "no runs; start one with", before=OUT),
    Case("show latest --arm a", "--json", is_object, True, before=RUN),
    *run_options(LEVELS),
    *of_changes(LEVELS),
    Case(
        "run exp.json --toxiproxy embedded",
        "--levels 0.5,2",
        lambda h: h.arms[1:3],
        ["a-x0.5", "a-x2"],
        "0",
        "each must be above 0",
    ),
    Case(
        "run exp.json --levels 1 --toxiproxy embedded",
        "--repeats 3",
        lambda h: len(h.prompts),
        6,
        "0",
        "repeats",
    ),
    Case(LEVELS, "--only two", prompts, ["two"], "three", "unknown id"),
    Case(LEVELS, "--json", is_object, True),
    Case(
        "faults draw found",
        "--n 11",
        exists("found/fuzz-default-1-0011.yaml"),
        True,
        "0",
        "0 is not in the range",
    ),
    Case(DRAW, "--seed 9", exists("found/fuzz-default-9-0001.yaml"), True, "-1", "-1 is not in the range"),
    Case(DRAW, "--space llm", exists("found/fuzz-llm-1-0001.yaml"), True, "x", "'x' is not one of"),
    Case(DRAW, "--wiring w.json", drawn("wiring: ../w.json"), True, "no.yaml", "no.yaml"),
    Case(DRAW, "--prompts p.json", drawn("prompts: ../p.json"), True, "no.json", "no.json"),
    Case(DRAW, "--only 1", drawn("only:"), True, "nobody", "unknown id"),
    Case(LEVELS, "--out o", exists("o/logs/experiments"), True, "exp.json", "exp.json"),
]


def write_experiments(folder: Path) -> None:
    (folder / "exp.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    limited = {**EXPERIMENT, "limits": {"time": 1e-9}}
    (folder / "limited.json").write_text(json.dumps(limited), encoding="utf-8")
    claim = {**EXPERIMENT, "hypothesis": ["success_rate >= 0.6"]}
    (folder / "claim.json").write_text(json.dumps(claim), encoding="utf-8")
    (folder / "p.json").write_text(json.dumps(EXPERIMENT["prompts"]), encoding="utf-8")
    (folder / "w.json").write_text(json.dumps(WIRING), encoding="utf-8")
    both = folder / "both"
    both.mkdir()
    for name in "ab":
        (both / f"{name}.json").write_text(json.dumps({**EXPERIMENT, "title": name}), encoding="utf-8")
    below = both / "below"
    below.mkdir()
    (below / "c.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    (below / "prompts.json").write_text(json.dumps(EXPERIMENT["prompts"]), encoding="utf-8")
    (below / "w.json").write_text(json.dumps(WIRING), encoding="utf-8")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> list[PaperLab]:
    """The last item is the lab whose engine runs."""
    labs: list[PaperLab] = []
    for module in ("running", "own_lab"):
        engine = f"wirefault.cli.{module}.LocalEngine"
        monkeypatch.setattr(engine, lambda: labs[-1].engine_called("local"))
    monkeypatch.setattr("wirefault.experiments.ray_engine.RayEngine", lambda: labs[-1].engine_called("ray"))
    return labs


@pytest.fixture(scope="module")
def cache() -> dict[tuple[str, ...], PaperLab]:
    """Labs after commands, which many cases share; nothing changes them later."""
    return {}


NewLab = Callable[..., PaperLab]


@pytest.fixture
def new_lab(
    engines: list[PaperLab],
    cache: dict[tuple[str, ...], PaperLab],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> NewLab:
    """Makes a lab in a new folder, in which these commands have run; the commands run once for all tests."""

    def make(*commands: str) -> PaperLab:
        folder = tmp_path_factory.mktemp("lab") / "lab"
        lab = PaperLab(folder)
        engines.append(lab)
        if commands:
            shutil.copytree(after(commands).folder, folder)
        else:
            folder.mkdir()
            write_experiments(folder)
        monkeypatch.chdir(folder)
        return lab

    def after(commands: tuple[str, ...]) -> PaperLab:
        if commands not in cache:
            lab = cache[commands] = make(*commands[:-1])
            lab.wirefault(*commands[-1].split())
        return cache[commands]

    return make


@pytest.fixture
def paper_lab(new_lab: NewLab) -> PaperLab:
    return new_lab()


def before(case: Case) -> list[str]:
    return [case.before] if case.before else []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_option_changes_output(new_lab: NewLab, cache: dict[tuple[str, ...], PaperLab], case: Case) -> None:
    new_lab(*before(case), case.words)
    assert cache[*before(case), case.words].view(case.sees) != case.seen
    lab = new_lab(*before(case))
    assert lab.seen(case.sees, *case.words.split(), *case.option.split()) == case.seen, lab.output


@pytest.mark.parametrize("case", [case for case in CASES if case.wrong], ids=str)
def test_invalid_option_is_refused(new_lab: NewLab, case: Case) -> None:
    lab = new_lab(*before(case))
    lab.wirefault(*case.words.split(), case.place[1], case.wrong)
    assert case.message in " ".join(lab.output.split()) and not lab.engine.ran


@pytest.mark.parametrize("option", OF_WIRINGS)
def test_run_options_are_refused_for_experiments(paper_lab: PaperLab, option: str) -> None:
    assert paper_lab.wirefault(*RUN.split(), option, "x").exit_code == 64
    assert "an experiment names its subject and prompts" in paper_lab.output and not paper_lab.engine.ran


def test_faults_option_says_where_an_experiment_has_its_faults(paper_lab: PaperLab) -> None:
    assert paper_lab.wirefault(*RUN.split(), "--faults", "lost-replies").exit_code == 64
    output = " ".join(paper_lab.output.split())
    assert "--faults: an experiment names its faults in `method`" in output and not paper_lab.engine.ran


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_is_tested(command: str) -> None:
    known: click.Command | None = main
    for word in command.split():
        assert isinstance(known, click.Group)
        known = known.get_command(click.Context(known), word)
    assert known is not None
    options = {p.opts[0] for p in known.params if isinstance(p, click.Option) and not p.hidden}
    here = {case.place[1] for case in CASES if case.place[0] == command}
    options -= {f"--{name.replace('_', '-')}" for name in NAMES} - {"--seed"}
    assert options - here == set(ELSEWHERE.get(command, ()))
