"""The command line that repeats a run in the same kind of lab."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wirefault.core.errors import InputError
from wirefault.core.lab_folder import sample_prompts
from wirefault.faults.sets.fault_set import FaultSetError
from wirefault.faults.sets.presets import find_set, preset_of
from wirefault.settings.budgets import without_pool
from wirefault.settings.configuration import NO_CHANCES
from wirefault.settings.settings import INTERNAL, NAMES, Settings
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.prompts import PromptsSource

if TYPE_CHECKING:
    from wirefault.judging.summary import Summary

# the lab's agent needs less time than any command
EXEC_DEFAULTS: Mapping[str, str] = {**NO_CHANCES, "model": "scripted", "attempt_time": "600"}
EXEC = "exec"  # the first word that gives a wiring whose links are found
COMPOSE_LAB = "compose"  # the LAB_ID that docker-compose.yaml gives; a native lab draws its own
# the agent's container sees these files where they are mounted; HOST_... says what the user called them
COMPOSE_FILES = ("CONFIG_FILE", "MOVIES_FILE", "PLAYBOOKS")
SUBJECT_VARIABLES = ("SUBJECT_IMAGE", "SUBJECT_COMMAND")  # the same for compose.subject.yaml


def command(
    settings: Settings,
    source: PromptsSource | None = None,
    lab_id: str = "",
    environ: Mapping[str, str] | None = None,
    wiring: Sequence[str] = (),
    links: Links | None = None,
    subject: str | None = None,
    faults_name: str = "",
    lab_files: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the command that repeats a run of the lab ``lab_id`` with the prompts of ``source``.

    ``wiring``: its words on the command line, none for the lab's own; ``links``: its links, or the lab's.
    ``subject``, ``faults_name``: as named on the command line. ``environ``: of the agent, if known.
    ``lab_files``: the lab's data files other than the shipped ones, by their variable.
    """
    source = source or PromptsSource()
    # other runs' use of a shared budget cannot be repeated
    settings = settings.model_copy(update={"budgets": without_pool(settings.budgets)})
    if lab_id == COMPOSE_LAB:
        return _compose(settings, source, environ or {}, wiring, links or lab_links(), lab_files)
    variables, start = _start(settings, wiring, lab_links() if links is None else links, faults_name)
    assigned = [f"{name}={shlex.quote(value)}" for name, value in {**lab_files, **variables}.items()]
    if wiring and wiring[0] == EXEC:
        return " ".join([*assigned, shlex.join([*start, *wiring[1:]])])
    named = [f"--subject={subject}"] if subject else []
    words = [*start, *_prompts(source), *_pick(source), *named]
    return " ".join([*assigned, shlex.join([*words, *wiring])])  # a subject's command comes last, after --


def summary_command(summary: Summary, prompts: str = "") -> str:
    """Return the command that repeats the summary's run, with a note if its prompts have changed.

    ``prompts``: the present path of its prompts file, if that has moved. Raises ``InputError``.
    """
    if test := _test_id(summary):
        return shlex.join(["pytest", test, f"--wirefault-seed={summary.seed}"])
    settings, links = _settings_and_links(summary)
    source = summary.prompts_source
    source = replace(source, file=prompts or source.file)
    repeat = command(
        settings,
        source,
        summary.lab_id,
        wiring=summary.wiring_arguments,
        links=links,
        faults_name=summary.faults_name,
        lab_files=summary.lab_files,
    )
    changed = prompts_changed(source)
    return f"{repeat}\nnote: {changed}" if changed else repeat


def _test_id(summary: Summary) -> str:
    """Return the test of pytest that is the only episode; empty for another run."""
    prompts = [episode.prompt for episode in summary.episodes]
    if len(prompts) != 1 or summary.wiring_arguments or summary.prompts_source.file:
        return ""
    return prompts[0] if "::" in prompts[0] and summary.subject.startswith(prompts[0]) else ""


def _settings_and_links(summary: Summary) -> tuple[Settings, Links | None]:
    """Return the run's settings, and its links as its fault set names them. Raises ``InputError``.

    The fault set of a run that intercepts may name links that were to be found.
    """
    is_exec = list(summary.wiring_arguments[:1]) == [EXEC]
    for grows in (True,) if is_exec else (False, True):
        links = Links(summary.links, grows=grows) if summary.links or is_exec else None
        try:
            return Settings.model_validate(summary.settings, context={"links": links}), links
        except ValueError:
            continue
    raise InputError("the history has settings of another version")


def as_user_named(source: PromptsSource, environ: Mapping[str, str]) -> PromptsSource:
    """Return the source with its file's name outside the agent's container, if the agent runs in one."""
    name = environ.get("HOST_PROMPTS_FILE")
    return replace(source, file=name) if name else source


def prompts_changed(source: PromptsSource) -> str:
    """Describe why that command may send other prompts: the file has changed or is missing. Else empty."""
    now = _sha256(Path(source.file))
    if not source.sha256 or now == source.sha256:
        return ""
    if now is None:
        return f"the run's prompts file is not here: {source.file} (SHA-256 {source.sha256[:12]}...)"
    return (
        f"the prompts file {source.file} has changed since the run (SHA-256 {source.sha256[:12]}... then,"
        f" {now[:12]}... now): only prompts with the same text or id meet the same faults again"
    )


def _named(source: PromptsSource) -> str:
    """Return the prompts file, if it is not the lab's own."""
    return "" if not source.file or Path(source.file) == sample_prompts() else source.file


def _prompts(source: PromptsSource) -> list[str]:
    named = _named(source)
    return [f"--prompt={text}" for text in source.texts] + (["--prompts", named] if named else [])


def _sha256(path: Path) -> str | None:
    """Hash only a regular file: the name is from an untrusted history, and a pipe would block forever."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _pick(source: PromptsSource) -> list[str]:
    only = [f"--only={name}" for name in source.only]
    return only + ([f"--match={source.match}"] if source.match else [])


def _start(
    settings: Settings, wiring: Sequence[str], links: Links, faults_name: str
) -> tuple[dict[str, str], list[str]]:
    """Return the command with the seed and every setting that is not the default of this way of running.

    The fault set is named as the user named it, if that still is the same set. Settings without an option
    are the variables in front of it.
    """
    name = EXEC if list(wiring[:1]) == [EXEC] else "run" if wiring else "demo"
    changed = _not_default(settings, links, EXEC_DEFAULTS if name == EXEC else NO_CHANCES if wiring else {})
    if "faults" in changed and _is_named(settings.faults, faults_name, links):
        changed["faults"] = faults_name
    variables = {key.upper(): value for key, value in changed.items() if key in INTERNAL}
    words = ["wirefault", name, "--seed", str(settings.seed)]
    for key, value in changed.items():
        if key not in INTERNAL:
            words += ["--" + key.replace("_", "-"), value]
    return variables, words


def _compose(
    settings: Settings,
    source: PromptsSource,
    environ: Mapping[str, str],
    wiring: Sequence[str],
    links: Links,
    lab_files: Mapping[str, str],
) -> str:
    """Return ``docker compose up`` with every variable that was set, even to its default, since .env may
    differ.
    """
    changed = _not_default(settings, links)
    explicit = {name: _as_text(settings, name, links) for name in NAMES if environ.get(name.upper())}
    values = {"seed": str(settings.seed)} | {n: v for n, v in (explicit | changed).items() if n != "seed"}
    variables = {name.upper(): value for name, value in values.items()}
    # a wiring names the prompts of its subject
    files = {"SUBJECT_FOLDER": str(Path(wiring[-1]).parent)} if wiring else {"PROMPTS_FILE": _named(source)}
    named_on_host = {name: environ.get(f"HOST_{name}", "") for name in (*COMPOSE_FILES, *SUBJECT_VARIABLES)}
    files |= {**lab_files, **{name: path for name, path in named_on_host.items() if path}}
    variables |= {name: path for name, path in files.items() if path}
    assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    more = ["compose.direct.yaml"] if settings.fallback == "direct" else []
    more += ["compose.subject.yaml"] if wiring else []
    named = "".join(f" -f {file}" for file in ("docker-compose.yaml", *more)) if more else ""
    # "up" passes no words to the agent
    picked = shlex.join(["run", "--rm", "agent", "python", "-m", "agent", *_pick(source)])
    return f"{assigned} docker compose{named} {picked if source.picked else 'up'}"


def _is_named(faults: str, name: str, links: Links) -> bool:
    """Whether the name, of a file, a preset or a fault, gives this set."""
    path = Path(name)
    if not name or (path.exists() and not path.is_file()):  # a pipe in an untrusted history would block
        return False
    try:
        return find_set(name, links).dump() == faults
    except FaultSetError:
        return False


def _not_default(
    settings: Settings, links: Links, usual: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    # bodies and shadow change no behaviour, and follow from the subject and the experiment
    decided: dict[str, str] = {"bodies": settings.bodies, "shadow": settings.shadow}
    if settings.translates_offline:  # "auto" gives this value again under the scripted model
        decided["translator_backend"] = "offline"
    defaults = Settings.model_validate({"seed": settings.seed, **decided, **usual})
    differ = (name for name in NAMES if getattr(settings, name) != getattr(defaults, name))
    return {name: _as_text(settings, name, links) for name in differ}


def _as_text(settings: Settings, name: str, links: Links) -> str:
    """Return the value as text: a preset by its name, any other fault set without its defaults."""
    setting = getattr(settings, name)
    value = str(setting) if not isinstance(setting, bool) else "on" if setting else "off"
    return preset_of(value, links) or _brief(value, links) if name == "faults" and value else value


def _brief(faults: str, links: Links) -> str:
    """Return the canonical text of a set without defaults; it parses to the same set."""
    brief = {
        key: [_of_entry(key, entry, links) for entry in entries]
        for key, entries in json.loads(faults).items()
    }
    return json.dumps(brief, ensure_ascii=False)


def _of_entry(key: str, entry: Mapping[str, Any], wired: Links) -> dict[str, Any]:
    name, usual = ("fault", "all") if key == "faults" else ("toxic", "tools")
    groups = {group: list(names) for group, names in wired.groups.items()}
    links = next((group for group in groups if groups[group] == entry["links"]), entry["links"])
    whole = {name: entry[name], **entry, "links": links}
    silent = {"id": entry[name], "links": usual, "with": {}, "only": {}}
    whens: tuple[dict[str, float], ...] = ({}, {"probability": 1.0})
    return {
        word: value
        for word, value in whole.items()
        if not (word in silent and value == silent[word]) and not (word == "when" and value in whens)
    }
