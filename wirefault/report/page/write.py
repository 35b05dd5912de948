"""Write a page: one HTML file with its style, script and data, which requests nothing.

Every text is escaped by the template; control characters are removed. A content security policy allows the
page's own style and script by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from wirefault.audit.options import is_audit
from wirefault.audit.result import read_audit
from wirefault.core.errors import InputError, UserError
from wirefault.core.files import UnsafeFileError, replace_shared
from wirefault.experiments.recorded import Recording, open_recording
from wirefault.experiments.run_experiment import ExperimentResult, judged_again
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.run_search import answer_of
from wirefault.history.logs import strip_control
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.colors import CLEAN, LIGHT, SEVERITIES, css_variables
from wirefault.report.fixes import WORDS
from wirefault.report.page.audits import audit_content
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.experiments import experiment_content
from wirefault.report.page.helps import LEGEND, VERDICTS
from wirefault.report.page.parts import PageContent
from wirefault.report.page.phrase import marked_up
from wirefault.report.page.runs import run_content
from wirefault.report.page.searches import search_content
from wirefault.report.page_links import PAGE, page_path

# episodes whose HTML is readable without JavaScript: all of a few, else those with findings
_FEW, _MAX_PLAIN = 40, 60
_CHUNK = 50
_OVERVIEW = 8
"""Findings that the top of the page lists."""
_MAX_TITLE = 200


def page_line(logs: Path, name: str, environ: Mapping[str, str], recording: Recording | None = None) -> str:
    """Write the page of a run or experiment below ``logs``; return a line with its path, or the reason.

    ``recording``: what was read of it already. A page that cannot be written changes no verdict, so nothing
    is raised for it.
    """
    path = page_path(logs, name)
    try:
        html = page_html(page_content(recording or open_recording(logs, name, environ)))
        replace_shared(logs, path, html.encode("utf-8", "replace"))
    except (UserError, OSError, UnsafeFileError, ValueError) as error:
        return f"no page: {strip_control(str(error))}"
    return f"page: {path}"


def write_page_to(content: PageContent, file: Path) -> None:
    """Write a page to that file. Raises ``InputError``."""
    try:
        file.write_text(page_html(content), encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"--html {file}: {error.strerror}") from None


def page_content(
    recording: Recording, judged: Callable[[SavedExperiment], ExperimentResult] = judged_again
) -> PageContent:
    """Describe a run, an experiment or an audit. Raises ``InputError`` if its histories cannot be read.

    ``judged`` returns the result of an experiment.
    """
    saved = recording.experiment
    if saved is None:
        return run_content(recording, next(iter(recording.arms.values())), recording.id)
    if is_audit(saved):
        return audit_content(recording, saved, read_audit(saved))
    if saved.plan.search:
        return search_content(recording, saved, answer_of(saved))
    if saved.plan.is_plain_run:
        return run_content(recording, recording.arm(None), saved.plan.experiment.title)
    return experiment_content(recording, saved, judged(saved))


def page_json(content: Callable[[], PageContent]) -> dict[str, Any]:
    """Return the part of a recording's JSON that its page shows: its figures, and an audit's answers.

    The figures are None if ``content`` raises, since the page cannot be made.
    """
    try:
        page = content()
    except UserError:
        return {"figures": None}
    return {**page.answers, "figures": page.figures}


def page_html(page: PageContent, *, live: str = "") -> str:
    """Return the page as HTML.

    ``live``: for the server, the state of the recording's files; the page then takes in what changes.
    """
    environment = _environment()

    def html_of(episode: EpisodeCard) -> Markup:
        return episode_html(episode, opened=episode.number == page.opened)

    plain = page.episodes
    if len(plain) > _FEW:
        plain = [each for each in page.episodes if _has_finding(each)][:_MAX_PLAIN]
        if page.opened and all(each.number != page.opened for each in plain):
            plain = [page.episodes[page.opened - 1], *plain]
    plain_numbers = {episode.number for episode in plain}
    others = [episode for episode in page.episodes if episode.number not in plain_numbers]
    places = {each.number: divmod(place, _CHUNK) for place, each in enumerate(others)}
    style, script = Markup(_style()), Markup(_file("page.js") + (_file("live.js") if live else ""))
    return environment.get_template(PAGE).render(
        page=page,
        card=html_of,
        plain=plain,
        others=len(others),
        index=_packed([_index_row(episode, places.get(episode.number)) for episode in page.episodes]),
        chunks=[_packed([html_of(each) for each in chunk]) for chunk in _chunks(others)],
        outcomes=OUTCOMES.values(),
        legend=LEGEND,
        overview_rows=_OVERVIEW,
        cost_title=_cost_title(page),
        in_all="" if _has_no_control(page) else "not compared; in all ",
        gloss=VERDICTS.get(page.verdict.partition("; ")[0], ""),
        used_outcomes={episode.tone.removeprefix("o-") for episode in page.episodes},
        style=style,
        script=script,
        policy=_policy(style, script, connects=bool(live)),
        live=live,
    )


def _cost_title(page: PageContent) -> str:
    """Return the title of the costs at the top: totals, unless some are compared."""
    if _has_no_control(page):
        return "cost, in all (not compared with a run without faults)"
    return "cost, second less first" if page.kind == "comparison" else "cost, beyond a run without faults"


def _has_no_control(page: PageContent) -> bool:
    return all(card.extra is None for card in page.overview)


def episode_html(episode: EpisodeCard, *, opened: bool = False) -> Markup:
    """Return the element of an episode."""
    template = _environment().get_template("episode.html")
    return Markup(template.render(episode=episode, words=WORDS, opened=opened))


def live_episode(episode: EpisodeCard) -> dict[str, Any]:
    """Return an episode for a page that is open: its row of the list, and its HTML."""
    return {"row": _index_row(episode, None), "html": str(episode_html(episode))}


def template_html(name: str, context: Mapping[str, Any], *, script: str = "live.js") -> str:
    """Return another page of the server, in the same style."""
    style, script = Markup(_style()), Markup(_file(script))
    policy = _policy(style, script, connects=True)
    return _environment().get_template(name).render(**context, style=style, script=script, policy=policy)


def _policy(style: str, script: str, *, connects: bool) -> str:
    """Allow the page's own style and script; on the server also its forms and its stream of changes."""
    own = "connect-src 'self'; form-action 'self'" if connects else "form-action 'none'"
    return f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; {own}"


def _has_finding(episode: EpisodeCard) -> bool:
    return any(finding.severity != "note" for finding in episode.findings) or episode.tone in _FINDING_TONES


_FINDING_TONES = ("s-harmful", "s-risky", "s-wasteful")


def _index_row(episode: EpisodeCard, place: tuple[int, int] | None) -> dict[str, Any]:
    """Describe an episode for the list: its filters, and where its HTML is."""
    chunk, position = place if place is not None else (-1, 0)
    return {
        "n": episode.number,
        "arm": episode.arm,
        "word": episode.word,
        "tone": episode.tone,
        "worst": [episode.severity, WORDS[episode.severity]] if episode.severity else None,
        "title": strip_control(episode.title)[:_MAX_TITLE],
        "secs": round(episode.seconds, 2),
        "faults": list(episode.faults),
        "links": list(dict.fromkeys(request.link_name for request in episode.trace.requests)),
        "rules": list(dict.fromkeys(finding.rule for finding in episode.findings)),
        "chunk": chunk,
        "place": position,
    }


def _chunks(episodes: Sequence[EpisodeCard]) -> Iterator[Sequence[EpisodeCard]]:
    for start in range(0, len(episodes), _CHUNK):
        yield episodes[start : start + _CHUNK]


def _packed(value: Any) -> str:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _style() -> str:
    colors = "".join(
        f".o-{row.name}{{fill:{row.color}}}.swatch.o-{row.name}{{background:{row.color}}}\n"
        for row in OUTCOMES.values()
    )
    tones = {**SEVERITIES, "fine": LIGHT["good"], "clean": CLEAN, "note": LIGHT["faint"]}
    return (
        css_variables()
        + _file("page.css")
        + colors
        + "".join(f".swatch.s-{name}{{background:{color}}}\n" for name, color in tones.items())
    )


@cache
def _file(name: str) -> str:
    return (files("wirefault.report.page") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
    )
    environment.globals["whole_words"] = whole_words
    return environment


_LONGEST_UNBROKEN = 30


def whole_words(command: str) -> Markup:
    """Return a command whose words are not broken at hyphens: ``--episode`` may look like ``-- episode``."""
    return Markup(" ").join(
        Markup('<span class="word">{}</span>').format(word) if len(word) <= _LONGEST_UNBROKEN else word
        for word in map(marked_up, command.split(" "))
    )


def _visible(value: Any) -> Any:
    """Escape a value for HTML, with the places of its figures."""
    if isinstance(value, Markup):
        return value
    return marked_up(value if isinstance(value, str) else str(value))
