"""Write the reference pages from the code that they describe: ``python -m tools.reference``.

A test compares the files with the output, so that they cannot become outdated.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import NODEFAULT, structs
from msgspec.json import encode as to_json
from pydantic import BaseModel

import wirefault
import wirefault.recovery
from bench.findings.rules.cases import load_cases
from bench.findings.rules.page import rules_section
from bench.findings.rules.scores import read_scores
from tools.assertion_tables import assertion_rows
from tools.fault_builders import builders_module
from tools.fault_pages import causes_text, faults_page, mcp_page, read_seen, toxics_seen
from tools.lab_world import world_lines
from wirefault.audit.question import PLACES, Question
from wirefault.audit.questions import QUESTIONS
from wirefault.cli.skill import SKILL_FILE
from wirefault.experiments.against_control import Rise
from wirefault.experiments.estimators import Figure, OverRepeats, Planned, ShareOfAsked
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.figures import (
    ADDED,
    AGAINST_CONTROL,
    FIGURES,
    PASSES,
    PER_EPISODE,
    RATES,
)
from wirefault.history.events import Event
from wirefault.judging.findings.differences import DIFFERENCES
from wirefault.judging.findings.finding import RuleText
from wirefault.judging.findings.outcomes import OUTCOME_RULES
from wirefault.judging.findings.rules import RULES
from wirefault.recovery.strategies import STRATEGIES
from wirefault.report.fault_catalogue import default_of, range_of
from wirefault.settings.settings import NAMES, Settings
from wirefault.toxiproxy.toxics import TOXICS
from wirefault.toxiproxy.toxics.base import ONLY_EMBEDDED
from wirefault.wiring.spec_file import Spec
from wirefault.wiring.wiring import WiringSpec


def history_rows() -> Iterator[str]:
    """Yield rows of a Markdown table: each event's fields, and the default values that lines omit."""
    yield "| event | in every line | left out if |"
    yield "|---|---|---|"
    for kind in get_args(Event):
        always = [f"`{field.name}`" for field in structs.fields(kind) if field.required]
        left_out = [
            f"`{field.name}` {to_json(_left_out(field)).decode()}"
            for field in structs.fields(kind)
            if not field.required
        ]
        yield f"| `{kind.__struct_config__.tag}` | {', '.join(always)} | {', '.join(left_out)} |"


def _left_out(field: structs.FieldInfo) -> Any:
    return field.default_factory() if field.default is NODEFAULT else field.default


MADE = "made by `make docs`; do not edit"


def settings_page() -> str:
    """Return ``docs/settings.md``."""
    rows = ["| setting | default | range | meaning |", "|---|---|---|---|"]
    for name in NAMES:
        field = Settings.model_fields[name]
        rows.append(f"| `{name.upper()}` | {_default(name)} | {range_of(field)} | {field.description} |")
    intro = (
        "A setting is an environment variable, a line in `.env`, a key of `settings` in"
        " [`agent/config.json`](files.md#agentconfigjson) (lower case), and an option of each command that"
        " runs or plans: `TOXIC_PROB` is `--set toxic_prob=0.3`, or `--toxic-prob 0.3`. `--set` also sets"
        " every other option of the command (`--set workers=4`), and the shell completes its keys and"
        ' values after `eval "$(_WIREFAULT_COMPLETE=bash_source wirefault)"` (or `zsh_source`).'
        " Command line, environment, `.env`, `config.json` and"
        " default take precedence in this order. An unknown key of `settings` or a value out of range is an"
        " error that names it, before anything starts. Other programs use the environment and `.env`, too:"
        " unknown names there are ignored, and a warning names those in `.env`, with the nearest setting of"
        " one that looks misspelt."
        " `make run`, `wirefault demo`, `wirefault run --lab` and Compose have the same defaults, even with"
        " `FAULTS`: use `--toxic-prob 0 --error-prob 0"
        " --faults ...` for the set's faults alone. With your own wiring, `TOXIC_PROB` and `ERROR_PROB`"
        " are 0 by default."
    )
    return _page("Settings", intro, *rows)


def _default(name: str) -> str:
    if name == "seed":
        return "drawn"
    if name == "model":
        return "`scripted`, with `GROQ_API_KEY` `groq`"
    return default_of(Settings.model_fields[name])


def toxics_section() -> str:
    """Return the section of toxics in ``docs/faults.md``."""
    parts = [
        "## Toxics",
        "A toxic breaks a connection, not a request. Values of `TOXICS`, separated by commas:"
        " `kind[@stream][:value]`, for example `timeout:400`, `latency@upstream:300` or"
        " `latency:latency=300;jitter=50`. A value without a name sets the attribute marked main. Without a"
        " stream, `upstream` or `downstream` is drawn. `TOXIC_SCOPE` and `TOXIC_SECONDS` set [the number of"
        " links and the duration](architecture.md#the-draws). Add your own:"
        " [a toxic](extending.md#a-toxic).",
    ]
    for toxic in TOXICS:
        parts.append(f"### {toxic.kind}\n\n{toxic.meaning[0].upper()}{toxic.meaning[1:]}.")
        if toxic.attributes:
            rows = ["| attribute | unit | default | range | meaning |", "|---|---|---|---|---|"]
            rows += [
                f"| `{a.name}`{' (main)' if a.name == toxic.main else ''} | {a.unit} | {a.default} |"
                f" {a.minimum} to {a.maximum} | {a.meaning} |"
                for a in toxic.attributes
            ]
            parts.append("\n".join(rows))
        signature = " ".join((type(toxic).observed.__doc__ or "").split())
        parts.append(f"Counts as observed when: {signature}")
        parts.append(f"Errors of a try that it can cause: {causes_text(toxic.can_cause)}.")
        if not toxic.in_toxiproxy:
            parts.append(ONLY_EMBEDDED)
    return "\n\n".join([*parts, *toxics_seen()])


def faults_reference() -> str:
    """Return ``docs/faults.md``."""
    intro = (
        "Faults of a fault set: `wirefault demo --faults FILE|PRESET`, or `wirefault faults set` on a"
        " lab that"
        " is up. `wirefault faults show NAME` shows a fault, or a preset with its true rates. The file"
        " format:"
        " [fault sets](fault-sets.md); its toxics: [toxics](faults.md#toxics). At most one fault"
        " changes a try, the first in the file's order; delays add up. `CHAOS_LEVEL` multiplies every"
        " probability of the set: 1 is as written, 0 is none. Faults of event streams act only on"
        " clients that"
        " ask their model for streams; the lab's agent does with `STREAM=on`. [MCP](mcp.md) has its own page,"
        " with its clients' reactions to each fault."
    )
    return _page("Faults", intro, *faults_page(read_seen()).splitlines(), "", toxics_section())


def findings_reference() -> str:
    """Return ``docs/findings-rules.md``."""
    intro = (
        "After each run, findings describe how the subject handled failures, also for prompts without an"
        " oracle. They do not change outcomes, and exit codes only where no hypothesis decides. Each"
        " finding names its evidence: events by run, file and line. `wirefault show RUN/gateway-0:17` shows"
        " the event's episode; `wirefault runs verify RUN --event RUN/gateway-0:17` prints the event, and so"
        " does `sed -n 17p logs/runs/RUN/gateway-0.jsonl`. The console"
        " shows the worst findings with one example each; `findings` in `--json`, and in the summary in"
        " `logs/info.log`, lists all. They are computed from the history, so `wirefault runs verify RUN`"
        " computes them again. A rule reads only the history; if the subject does not record its calls, the"
        " history has only the gateway's record of them. This page is made from the rules in"
        " `wirefault/judging/findings/`, and every command judges by the same rules. Those in"
        " `differences.py` need a control: they compare an episode that met a fault with episodes of the"
        " same prompt that met none, so only `audit` (by its clean runs) and experiments can make these"
        " findings; an experiment's are in its report and in `differences` of `--json`. `audit` omits notes,"
        " and findings that its clean runs have, too; above its table are the connections that bypassed the"
        " lab."
    )
    return _page("Rules of findings", intro, *findings_page())


def commands_page() -> str:
    """Return ``docs/commands.md``, from the command line's help."""
    from wirefault.cli.help import ALL, SETTINGS
    from wirefault.cli.main import main

    settings = re.compile(rf"^{SETTINGS}:\n((?:  .*\n)+)", re.MULTILINE)
    parts: list[str] = []
    for name, command in _commands("wirefault", main):
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        context.meta[ALL] = True
        text = command.get_help(context) + "\n"
        if any(settings.search(part) for part in parts):  # the first command lists them
            text = settings.sub(f"{SETTINGS}:\n  as of wirefault demo, also by --set KEY=VALUE\n", text)
        parts.append(f"## {name}\n\n```text\n{text}```")
    return _page("Commands", _COMMANDS_INTRO, *"\n\n".join(parts).splitlines())


_COMMANDS_INTRO = (
    "The output of `wirefault COMMAND --help-all`. Exit codes: 0 held or done, 1 deviated, or findings of a"
    " command that judges by them, 2 unknown, aborted or altered evidence, 64 usage, 70 the lab failed, 130"
    " Ctrl-C."
)


def _commands(name: str, command: click.Command | None) -> Iterator[tuple[str, click.Command]]:
    """Yield every callable command below this one, with its full name."""
    context = click.Context(click.Command(name))
    if command and (not isinstance(command, click.Group) or command.invoke_without_command):
        yield name, command
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            yield from _commands(f"{name} {word}", command.get_command(context, word))


def dotenv_example() -> str:
    """Return ``.env.example``, with every setting commented out."""
    lines = [
        "# Settings of Wirefault, all with their defaults. Copy to .env and uncomment those that you change.",
        "",
    ]
    for name in NAMES:
        field = Settings.model_fields[name]
        limits = range_of(field).replace("`", "")
        default = "" if name in ("seed", "model") else _default(name).strip("`")
        lines += [
            f"# {field.description}" + (f" ({limits})" if limits else ""),
            f"#{name.upper()}={default}",
            "",
        ]
    lines += [
        "# the keys for MODEL=groq and MODEL=compatible; neither reaches a log",
        "#GROQ_API_KEY=",
        "#MODEL_API_KEY=",
        "",
        "# other files for prompts, settings and movies (in Compose: below this folder);",
        "# a LibreTranslate server",
        "#PROMPTS_FILE=agent/prompts.json",
        "#CONFIG_FILE=agent/config.json",
        "#MOVIES_FILE=flask_tools/movies.json",
        "#LIBRE_URL=",
        "# your playbooks for the scripted model (docs/scripted-model.md)",
        "#PLAYBOOKS=",
        "",
        "# without Compose: a running Toxiproxy; default: one on PATH, else the embedded one",
        "#TOXIPROXY_URL=http://127.0.0.1:8474",
        "",
        "# in Compose: the port of pages and live state on this machine (any free one by default),",
        "# the name of the image",
        "#STATUS_PORT=8000",
        "#WIREFAULT_IMAGE=wirefault",
        "# with --profile recovery (docs/conversation-lab.md): the same of the conversation server",
        "#RECOVERY_PORT=8010",
        "#WIREFAULT_RECOVERY_IMAGE=wirefault-recovery",
        "",
        "# with compose.subject.yaml (docs/compose.md): the folder of wirefault.yaml and subject.env",
        "# (below this one), your agent's image, and its command",
        "#SUBJECT_FOLDER=examples/compose",
        "#SUBJECT_IMAGE=wirefault",
        "#SUBJECT_COMMAND=python /subject/agent.py",
        "#SUBJECT_PYTHONPATH=/wirefault/functions/startup",
    ]
    return "\n".join(lines) + "\n"


_FILES = Path("docs/files.md")
_FIELDS_BEGIN = f"<!-- {MADE} -->"


def files_page() -> str:
    """Return ``docs/files.md``: the hand-written part, then the fields of the history."""
    before, begin, _ = _FILES.read_text(encoding="utf-8").partition(_FIELDS_BEGIN)
    if not begin:
        raise ValueError(f"{_FILES}: missing the line {_FIELDS_BEGIN}")
    return before + begin + "\n\n" + "\n".join(history_rows()) + "\n"


def statements_page() -> str:
    """Return ``docs/statements.md``: the measures and assertions of experiments."""
    measures = ["| measure | meaning | unit | better | estimated as |", "|---|---|---|---|---|"]
    measures += [
        f"| `{row.name}` | {row.meaning} | {row.unit} | {row.better} | {row.estimator.name} |"
        for row in _figure_rows()
    ]
    intro = "The measures and assertions that the statements of an [experiment](experiments.md) can use."
    lines = ["## Measures", "", _OF_ARM, "", *measures, "", "## Assertions", ""]
    return _page("Statements", intro, *lines, _ASSERTIONS_INTRO, "", *assertion_rows())


def _figure_rows() -> list[Figure]:
    """``pass^k`` and ``added_NAME`` are a row each; what needs a control comes last."""
    rows = list(FIGURES.values())
    rows[2:2] = [
        Figure("rate(CHECK)", RATES, ShareOfAsked(), unit="share", better="higher"),
        *(
            Figure(f"pass{sign}k", meaning, OverRepeats(), unit="share", better="higher")
            for sign, meaning in PASSES.items()
        ),
    ]
    names = ", ".join(f"`{name}`" for name in PER_EPISODE)
    added = f"mean rise against the same episode of the control; NAME is one of {names}"
    return [
        *rows,
        *(row for row in AGAINST_CONTROL.values() if row.meaning),
        Figure(f"{ADDED}NAME", added, Rise("")),
        Figure("control_NAME", "the measure NAME of the control arm", Planned(), better=""),
    ]


_OF_ARM = (
    "Each measure describes one arm. In `--json` it is an object of numbers: `estimate`, `low` and `high`"
    " (its interval with the document's `confidence`), `n`, `unit`, and `bounds`, the lowest and highest"
    " value that unjudged episodes leave open; null where it is not known, and `note` says why. A count of"
    " episodes also has their `rate`. Figures that [an episode](#measures-of-an-episode) has, too, are of an"
    " arm as `mean(seconds)` or `sum(faults_delivered)`; alone they are about each episode."
)
_ASSERTIONS_INTRO = (
    "Each assertion is judged from the history, for each episode. If the history lacks a fact that it needs,"
    " the assertion is unknown and does not pass. A plain value sets the main parameter. All assertions take"
    " `turn` (a user turn, counted from 1, or `each`) and `episodes` (the share of episodes in which it must"
    " pass, 100 % by default). With `over: arm`, an assertion applies to all episodes of an arm together."
)


def python_page() -> str:
    """Return ``docs/python.md``, from the package's ``__all__``."""
    # one name a line, as ruff formats code in Markdown
    names = "".join(f"    {name},\n" for name in wirefault.__all__)
    guide = Path(__file__).with_name("python_guide.md").read_text(encoding="utf-8").strip()
    parts = [f"```python\nfrom wirefault import (\n{names})\n```", guide]
    for name in wirefault.__all__:
        parts += _public_name(name, getattr(wirefault, name))
    intro = (
        "The names that `wirefault` exports. Everything else is internal, unless a page names it. The fields"
        " of models are the keys of the files: [experiments](experiments.md), [fault sets](fault-sets.md)."
    )
    return _page("Python", intro, *"\n\n".join(parts).splitlines())


def recovery_page() -> str:
    """Return ``docs/recovery.md``, from the strategies' parameters and the recipes' docstrings."""
    intro = "`RECOVERY` switches on mitigations of the lab's agent, by name and parameter."
    guide = Path(__file__).with_name("recovery_guide.md").read_text(encoding="utf-8").strip()
    parts = [
        guide,
        "## Strategies",
        "| strategy | parameter | default | range | meaning |\n|---|---|---|---|---|",
    ]
    for name, kind in STRATEGIES.items():
        about = (inspect.getdoc(kind) or "").splitlines()[0]
        parts[-1] += f"\n| `{name}` |  |  |  | {about} |"
        for parameter, field in kind.model_fields.items():
            cells = f"`{field.alias or parameter}` | {default_of(field)} | {range_of(field)}"
            parts[-1] += f"\n|  | {cells} | {field.description} |"
    for name in wirefault.recovery.__all__:
        parts += _public_name(name, getattr(wirefault.recovery, name))
    return _page("Mitigations of the lab's agent", intro, *"\n\n".join(parts).splitlines())


def _public_name(name: str, value: Any) -> Iterator[str]:
    yield f"## {name}"
    if not inspect.isclass(value):
        yield _signature(name, value)
    yield inspect.getdoc(value) or ""
    if inspect.isclass(value):
        if rows := list(_fields_of(value)):
            yield "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])
        if members := list(_members_of(value)):
            yield "\n".join(members)


def _signature(name: str, function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    text = [re.sub(r"<.*>", "...", str(parameter)) for parameter in parameters]
    lines = [f"    {parameter},".replace("'", "") for parameter in text]
    returned = inspect.signature(function).return_annotation
    return "\n".join(["```python", f"{name}(", *lines, f") -> {returned}", "```"])


def _fields_of(kind: type) -> Iterator[str]:
    if issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            default = "required" if info.is_required() else default_of(info)
            yield f"| `{info.alias or name}` | {default} | {info.description or ''} |"
    elif is_dataclass(kind):
        for field in fields(kind):
            optional = field.default is not MISSING or field.default_factory is not MISSING
            default = f"`{field.default!r}`" if isinstance(field.default, str | int | float | tuple) else ""
            kind_of = str(field.type).replace("|", "\\|")
            yield f"| `{field.name}` | {default if optional else 'required'} | `{kind_of}` |"


def _members_of(kind: type) -> Iterator[str]:
    """Yield the class's public methods and properties, with the first lines of their docstrings."""
    for name, member in list(vars(kind).items()):
        member = getattr(member, "func", member)  # a cached property
        if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
            call = "" if name in _properties(kind) else "()"
            text = (inspect.getdoc(member) or "").partition("\n")[0]
            yield f"- `{name}{call}`" + (f": {text}" if text else "")


def _properties(kind: type) -> set[str]:
    return {name for name, member in vars(kind).items() if not inspect.isfunction(member)}


def schema_of(kind: type[Spec]) -> str:
    """Return the JSON Schema of a file format, for editors."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": MADE}
    return json.dumps(schema | kind.model_json_schema(), indent=1) + "\n"


def _page(title: str, intro: str, *lines: str) -> str:
    return f"# {title}\n\n<!-- {MADE} -->\n\n{intro}\n\n" + "\n".join(lines) + "\n"


def lab_world_page() -> str:
    """Return ``docs/lab-world.md``, from the data of the lab's tools."""
    intro = "The data of the lab's tools, for your prompts and oracles. Today is 2026-03-02 in the lab."
    return _page("The lab's world", intro, *list(world_lines())[1:])


def findings_page() -> Iterator[str]:
    """Yield the lines of ``docs/findings-rules.md`` below its introduction."""
    yield "| rule | severity | what it finds | found by |"
    yield "|---|---|---|---|"
    yield from _rows(RULES, "every command")
    yield from _rows(DIFFERENCES, "`audit`, experiments")
    yield from _rows(OUTCOME_RULES, "every command, by an [oracle](outcomes.md)")
    for rule in (*RULES, *DIFFERENCES, *OUTCOME_RULES):
        yield from ("", f"## {rule.name}", "", *_paragraphs(rule))
    yield from rules_section(load_cases(), read_scores())


def _rows(rules: Iterable[RuleText], found_by: str) -> Iterator[str]:
    for rule in rules:
        yield f"| [`{rule.name}`](#{rule.name}) | {rule.severity} | {rule.title} | {found_by} |"


def _paragraphs(rule: RuleText) -> Iterator[str]:
    yield f"{rule.title[0].upper()}{rule.title[1:]} ({rule.severity}). {rule.fires}"
    yield from ("", "No finding if", "", *(f"- {case}" for case in rule.silent))
    yield from ("", "False positives:", "", *(f"- {case}" for case in rule.mistaken))


def coding_agents_page() -> str:
    """``docs/coding-agents.md``, from the instructions in the wheel."""
    text = SKILL_FILE.read_text(encoding="utf-8").partition("---\n\n")[2]
    head, _, rest = text.partition("\n\n")
    intro = (
        "Instructions for coding agents; `wirefault skill` prints them as a `SKILL.md`. The table serves"
        " people, too."
    )
    return f"{head}\n\n<!-- {MADE} -->\n\n{intro}\n\n{rest}"


def questions_page() -> str:
    """Return ``docs/questions.md``, from the audit's questions."""
    intro = (
        "The questions of [`wirefault audit`](audit.md); those marked * are asked without `--all`,"
        " `crash_after_write` with `--resume-command`."
        " Installed packages add some by the entry point group `wirefault.questions`."
    )
    head = (
        "| question | about | what happens | asked at | fault | what would be right | else, usually | false"
        " positives |"
    )
    return _page(
        "Questions", intro, head, "|---|---|---|---|---|---|---|---|", *map(_question_row, QUESTIONS.values())
    )


def _question_row(question: Question) -> str:
    rules = ", ".join(f"[`{rule}`](findings-rules.md#{rule})" for rule in question.findings) or "a note"
    cells = (
        f"`{question.name}`" + " \\*" * question.default,
        question.about,
        question.sentence,
        PLACES[question.where].text,
        f"`{question.fault}`",
        question.right,
        rules,
        "; ".join(question.mistaken),
    )
    return f"| {' | '.join(cells)} |"


PAGES: dict[str, Callable[[], str]] = {
    "docs/settings.md": settings_page,
    "docs/faults.md": faults_reference,
    "docs/mcp.md": mcp_page,
    "docs/findings-rules.md": findings_reference,
    "docs/commands.md": commands_page,
    "docs/questions.md": questions_page,
    "docs/coding-agents.md": coding_agents_page,
    "docs/statements.md": statements_page,
    "docs/files.md": files_page,
    "docs/lab-world.md": lab_world_page,
    "docs/python.md": python_page,
    "docs/recovery.md": recovery_page,
    "docs/wiring.schema.json": lambda: schema_of(WiringSpec),
    "docs/experiment.schema.json": lambda: schema_of(Experiment),
    ".env.example": dotenv_example,
    "wirefault/faults/build.py": builders_module,
}


def main() -> None:
    for name, make in PAGES.items():
        Path(name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
