"""Make docs/findings.md from the observations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from bench.findings.observed import Behaviour, LinkRequests, Observed
from bench.findings.trials import BOUND_S, CALM, PROMPT, SEEDS, TRIALS, Trial
from wirefault.stats.exact import clopper_pearson
from wirefault.stats.rates import percent

Results = Mapping[str, Mapping[str, Sequence[Behaviour]]]  # by example, then by trial
_MAX_TOOL_TEXT = 320
_MANY = len(SEEDS)
_ALL = 100 * (clopper_pearson(len(SEEDS), len(SEEDS)) or (0, 1))[0]
INTRODUCTION = f"""\
# How agent frameworks react to faults

<!-- made by `make findings`; do not edit -->

Each agent of `examples/frameworks` ran {_MANY} times under each fault below, with its framework's
**defaults**: only the model's name and two tools were set. The prompt was `{PROMPT}`. Its tool sends
`POST /orders` without an idempotency key, and raises an exception if it gets no 2xx. The runs of a cell have
the seeds 1 to {_MANY}; each is stopped {BOUND_S} s after its start.

- **The framework decides** how often a request is sent again, whether an exception of a tool is handed to
  the model or ends the program, which tool result the model gets then, and how long it waits.
- **The scripted model decides** which tool is called, with which arguments, and what the answer says. It is
  [deterministic](scripted-model.md) and careful: it never repeats a write that may have happened, and asks
  once more where an error says that nothing was done. It never claims success after an error. So an answer
  that claims success after an error comes from the framework. One table below has an insistent model.
- **The tool decides** the rest: its HTTP client (`httpx`, which waits 5 s for a byte; Node's `fetch`, 300 s),
  and its exceptions. Tools that catch exceptions and configured frameworks behave differently.

Three examples differ. `autogen` asks the model once by default: the tool's result or error is the answer.
`openai_node` has no framework: the loop around the SDK is part of the example, and does not catch its tool's
exceptions. `smolagents` reports an error to the model in the user's message and omits the model's call. The
scripted model then does not know which call to repeat, so a real model may differ from its row under
*insistent model*.

Each table has a row for each behaviour, with its runs and the 90 % interval of its rate (Clopper and
Pearson): an agent that did the same in all {_MANY} runs does so at a rate of at least {_ALL:.0f} %. The seed
decides when and where a fault acts within its bounds, and the model is scripted, so these rates do not say
how often a real model does so. Seconds count from the first request to the end of the program, on a machine
that is busy with other runs, so they are approximate. `make findings` repeats all runs.
"""
GLANCE = """\
*Error as answer*: it ended with exit code 0, and its answer is the error's text. *No answer*: it ended with
exit code 0 and printed nothing. *Tries*: HTTP requests to the model for one logical call. *> 110 s*: it was
still waiting, or trying, when it was stopped that long after its first request. All runs of a cell did what
it says, unless it has counts.
"""


def page(versions: Mapping[str, str], results: Results, trials: Sequence[Trial] = TRIALS) -> str:
    """Return the page. ``versions`` has each example's packages with versions, in order."""
    faulty = [trial for trial in trials if trial is not CALM]
    parts = [INTRODUCTION, _versions(versions, results), _glance(faulty, results)]
    parts += [_section(trial, results) for trial in faulty]
    return "\n".join(parts).rstrip() + "\n"


def _versions(versions: Mapping[str, str], results: Results) -> str:
    rows = [(f"`{name}`", versions[name], _cell(results[name][CALM.name], _calm)) for name in results]
    return "## Versions\n\n" + _table(("example", "versions", "without a fault"), rows)


def _calm(observed: Observed) -> str:
    requests = f"requests to the model: {observed.model.tries}, orders: {observed.orders}"
    return f"{requests}, answers with the {observed.source}'s words" + (
        ", asks for event streams" if observed.streams else ""
    )


def _glance(trials: Sequence[Trial], results: Results) -> str:
    rows = [
        (f"`{name}`", *(_cell(seen[trial.name], _short) for trial in trials))
        for name, seen in results.items()
    ]
    return f"## At a glance\n\n{GLANCE}\n" + _table(("example", *(trial.name for trial in trials)), rows)


def _cell(seen: Sequence[Behaviour], text: Callable[[Observed], str]) -> str:
    """Return the behaviours with equal texts once; with counts if there are several."""
    counts: dict[str, int] = {}
    for each in seen:
        counts[text(each.first)] = counts.get(text(each.first), 0) + len(each.seconds)
    runs = sum(counts.values())
    return "; ".join(
        f"{words} ({count} of {runs})" if len(counts) > 1 else words for words, count in counts.items()
    )


def _short(observed: Observed) -> str:
    if not observed.delivered:
        return "not affected"
    error_as_answer = observed.end == "answered" and observed.source == "neither"
    ends = {"crashed": "crash", "still running": f"> {observed.seconds // 10 * 10:.0f} s"}
    parts = ["**error as answer**" if error_as_answer else ends.get(observed.end, observed.end)]
    parts += [f"**{observed.orders} orders**"] * (observed.orders > 1)
    repeated = observed.model.tries - observed.model.calls
    parts += [f"{repeated + 1} tries"] * (repeated > 0)
    return ", ".join(parts)


def _section(trial: Trial, results: Results) -> str:
    rows = [
        (f"`{name}`", *_row(trial, each, sum(len(other.seconds) for other in by_trial[trial.name])))
        for name, by_trial in results.items()
        for each in by_trial[trial.name]
    ]
    head = ("example", "runs", "ends", "HTTP tries at the model", "HTTP tries at the shop", "orders")
    return (
        f"## {trial.name[0].upper()}{trial.name[1:]}\n\n{trial.says[0].upper()}{trial.says[1:]}.\n\n"
        + _table((*head, "tool result that the model received"), rows)
    )


def _row(trial: Trial, behaviour: Behaviour, runs: int) -> tuple[str, ...]:
    observed, alike = behaviour.first, len(behaviour.seconds)
    low, high = clopper_pearson(alike, runs) or (0.0, 1.0)
    rate = f"{alike} of {runs} [{percent(low)}, {percent(high)}]"
    if not observed.delivered:
        reason = "not affected: it uses no event streams" if "stream" in trial.name else "not affected"
        return (rate, reason, *[""] * 4)
    orders = f"**{observed.orders}**" if observed.orders > 1 else str(observed.orders)
    tries = (_tries(observed.model), _tries(observed.shop))
    return (rate, _end(observed, _seconds(behaviour)), *tries, orders, _tool_result(observed))


def _seconds(behaviour: Behaviour) -> str:
    low, high = (f"{end:.0f}" for end in (min(behaviour.seconds), max(behaviour.seconds)))
    return f"{low} s" if low == high else f"{low} to {high} s"


def _end(observed: Observed, seconds: str) -> str:
    if observed.end == "still running":
        return f"still running after {seconds}"
    if observed.end == "crashed":
        return f"**crash** after {seconds}: `{_code(observed.error)}`"
    if observed.end == "no answer":
        return f"exit code 0 after {seconds}, **without an answer**"
    if observed.source == "neither":
        return f"**takes the error for the result**: answers `{_code(observed.answer)}`"
    return f"answers with the {observed.source}'s words after {seconds}"


def _tries(requests: LinkRequests) -> str:
    """Return the number of tries, and the layers that made the additional tries."""
    if requests.tries <= requests.calls:
        return str(requests.tries)
    by_sdk, by_framework = requests.sdk_tries, requests.tries - requests.calls - requests.sdk_tries
    layers = [f"{by_sdk} by the SDK's retries"] * bool(by_sdk)
    layers += [f"{by_framework} by the framework's"] * (by_framework > 0)
    return f"{requests.tries} for {requests.calls}: {', '.join(layers)}"


def _tool_result(observed: Observed) -> str:
    return f"`{_code(observed.tool_result)}`" if observed.tool_result else "nothing"


def _code(text: str) -> str:
    """Return the text as one line of code for a table cell."""
    short = re.sub(r"\s+", " ", text).strip()
    short = short if len(short) <= _MAX_TOOL_TEXT else f"{short[:_MAX_TOOL_TEXT].rstrip()} …"
    return short.replace("|", "\\|").replace("`", "'")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
