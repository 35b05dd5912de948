"""Compare an episode with the control's episodes of the same prompt, and report the differences. Pure.

The comparison needs no oracle. It reads an answer in other words by closed lists of words, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wirefault.history.judged_events import Finding, Severity
from wirefault.judging.checker import Observation
from wirefault.judging.findings.claimed import only_prepares
from wirefault.judging.findings.conduct import CallCount, Conduct, shortened
from wirefault.judging.findings.finding import RuleText, headline_of, times

MIN_CONTROL = 2
_DONE = (
    r"(?:placed|ordered|sent|booked|created|added|cancell?ed|deleted|removed|paid|saved|updated|submitted"
    r"|confirmed|scheduled|opened|issued|posted|reserved|refunded|registered|done|completed?|success\w*)"
)
_DENIED = re.compile(
    r"(?:\bnot|\bnothing|\bnone|n['’]t|\bcannot|\bnever|\bno|\bunable to|\bfailed to|\bwithout)"
    rf"(?:\s+\w+){{0,3}}\s+{_DONE}\b",
    re.I,
)
_DONE_WORD = re.compile(rf"\b{_DONE}\b", re.I)
_FAILED_WORD = re.compile(
    r"\b(?:not|cannot|never|unable|fail(?:s|ed|ure)?|errors?|exception|traceback|sorry|unfortunately|problem"
    r"|unavailable|refused|time[ds]?[ -]?out|unsuccessful(?:ly)?|aborted|rejected|denied|interrupted|crashed"
    r"|disconnected|broken pipe|(?:hang|hung) up|no (?:response|reply|answer)|econn\w+"
    r"|connection (?:was )?(?:reset|closed|lost)|without (?:sending )?(?:a|any) (?:response|reply|answer)"
    r"|gave up|giv(?:e|ing) up|(?:try|retry) (?:it )?(?:again|later)|apologi[sz]e|apologies|oops"
    r"|(?<!nothing )(?:went|goes|is|was) wrong)\b|n['’]t\b",
    re.I,
)

Reading = Literal["done", "failed", "other"]


@dataclass(frozen=True)
class Difference:
    """A difference of an episode to the control."""

    rule: RuleText
    observation: Observation

    def finding(self, agent: str, episode: str = "", text: str = "") -> Finding:
        """Return it as a finding. ``text``: its sentence in other words."""
        seen = self.observation
        severity, headline = seen.severity or self.rule.severity, headline_of(self.rule, seen, agent)
        return Finding(self.rule.name, severity, text or seen.text, episode, seen.evidence, headline)


def differences(conduct: Conduct, control: Sequence[Conduct]) -> list[Difference]:
    """Compare an episode that met a fault with the control's episodes of the same prompt.

    Empty for fewer than two control episodes, and if one of them failed or if their writes differ.
    """
    if len(control) < MIN_CONTROL or any(calm.exit or calm.past_lab for calm in control):
        return []
    usual = _usual_counts(control)
    if usual is None:
        return []
    extra = list(_extra(conduct, usual, len(control)))
    if extra:
        return extra
    return [
        *_unreported(conduct, usual, control),
        *_usual_answer(conduct, usual, control),
        *_silent(conduct, usual, control),
        *_ended_by_one_failure(conduct, usual, control),
    ]


def _usual_counts(control: Sequence[Conduct]) -> dict[str, CallCount] | None:
    """The writes of each control episode; None if the episodes differ in them."""
    counts = {count.call: count for calm in control for count in calm.calls}
    for calm in control:
        for call, count in counts.items():
            here = calm.count_of(call)
            if (here.executed if here else 0) != count.executed or (here is not None and here.maybe):
                return None
    return {call: count for call, count in counts.items() if count.executed}


def _extra(conduct: Conduct, usual: dict[str, CallCount], episodes: int) -> Iterator[Difference]:
    for count in conduct.calls:
        before = usual.get(count.call)
        normal, most_of_one = (before.executed, before.most_of_one) if before else (0, 0)
        more = count.executed - normal
        if more <= 0 or count.repeatable or count.reported - 1 >= more:
            continue
        if before is None and more <= _left_undone(conduct, usual):
            continue  # it may replace a usual one
        often = f"{times(normal) if normal else 'never'} in each of {episodes} control episodes"
        who = f"; {count.repeated}" if count.repeated else ""
        text = f"{count.name} was executed {times(count.executed)}, but {often}{who}"
        certain = count.most_of_one > max(most_of_one, 1) or more > 1
        if not certain and count.most_of_one <= max(most_of_one, 1):
            text += "; the contents differ"
        severity: Severity = "harmful" if certain else "risky"
        yield Difference(EXTRA_WRITES, Observation(text, (*count.ids, conduct.end_id), severity))


def _left_undone(conduct: Conduct, usual: dict[str, CallCount]) -> int:
    """Count the control's writes that this episode is not known to have executed."""
    here = {call: conduct.count_of(call) for call in usual}
    done = {call: count.executed if count else 0 for call, count in here.items()}
    return sum(max(count.executed - done[call], 0) for call, count in usual.items())


def _unreported(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    here = {call: conduct.count_of(call) for call in usual}
    done = [count for count in here.values() if count is not None and count.executed]
    counts = [count for count in done if not count.repeatable]
    if not counts or any(count.maybe or count.executed > usual[count.call].executed for count in done):
        return
    if conduct.unsure and not all(calm.unsure for calm in control):
        return
    missing = [normal for call, normal in usual.items() if _executed(here[call]) < normal.executed]
    reading = _reading(conduct, control)
    denied = [reply for reply in conduct.earlier if _FAILED_WORD.search(reply)]
    if any(reports_success(reply) for reply in conduct.earlier if reply not in denied):
        return  # an earlier turn reported it
    if missing:
        yield from _half_done(conduct, counts, missing, reading)
        return
    if conduct.exit:
        how = f"it {conduct.exit}"
    elif _is_silent(conduct, control):
        how = f"the answer is {conduct.text or 'empty'}"
        how = how if conduct.is_silent else f"the answer is missing: {conduct.text!r}"
    elif reading == "failed":
        how = f"the answer differs: {_different_text(conduct, control)!r}"
    elif denied and not reports_success(conduct.answer) and not any(map(_is_denied, control)):
        how = f"the agent replied {shortened(denied[0])!r}"
    else:
        return
    first = counts[0]
    text = f"{first.name} was executed {times(first.executed)}, as in the control, but {how}"
    reported = reports_success(conduct.answer if conduct.answer else conduct.reason)
    severity: Severity = "risky" if conduct.exit and reported else "harmful"
    ids = (*first.ids, conduct.end_id)
    yield Difference(DONE_NOT_TOLD, Observation(text, ids, severity))


def _is_denied(calm: Conduct) -> bool:
    return any(_FAILED_WORD.search(reply) for reply in calm.earlier)


def _different_text(conduct: Conduct, control: Sequence[Conduct]) -> str:
    """The last line that reports a failure and that no control episode printed: before it may be a banner."""
    usual = {line for calm in control for line in calm.lines}
    pairs = zip(conduct.plain_lines, conduct.lines, strict=True)
    different = [plain for plain, line in pairs if line not in usual]
    failed = [line for line in different if _FAILED_WORD.search(line)]
    return shortened(failed[-1]) if failed else conduct.text


def _executed(count: CallCount | None) -> int:
    return count.executed if count is not None else 0


def _half_done(
    conduct: Conduct, counts: Sequence[CallCount], missing: Sequence[CallCount], reading: Reading
) -> Iterator[Difference]:
    """Report writes of which only some were executed, although none failed for good."""
    lasting = [count for count in counts if not only_prepares(count.call.rpartition(" of ")[0])]
    attempts = [count for normal in missing if (count := conduct.count_of(normal.call)) is not None]
    if not lasting or any(count.refused or count.maybe for count in attempts):
        return  # the answer may be about that failure
    report = f"{conduct.answer} {conduct.reason}".casefold()
    if any(stem in report for normal in missing for stem in _stems(normal.call)):
        return  # it reports which write is missing
    if conduct.exit and not reports_success(report):
        how = f"it {conduct.exit}"
    elif not conduct.exit and reading == "failed":
        how = f"the answer is {conduct.text!r}"
    else:
        return
    first, short = lasting[0], missing[0]
    done = f"{first.name} was executed {times(first.executed)}, {short.name} was not"
    if executed := _executed(conduct.count_of(short.call)):
        done = f"{short.name} was executed {times(executed)}, not {times(short.executed)} as in the control"
    text = f"{done}, and {how}"
    yield Difference(DONE_NOT_TOLD, Observation(text, (*first.ids, conduct.end_id), "risky"))


def _stems(call: str) -> list[str]:
    """The beginnings of the words in a call's path or tool name, for a search in an answer."""
    name = call.partition(" of ")[0].casefold()
    return [word[:5] for word in re.findall(r"[a-z]{4,}", name.rpartition(" ")[2])]


def _usual_answer(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    usual_replies = control[0].replies
    replies = conduct.replies[-len(usual_replies) :]
    if conduct.exit or conduct.failed or conduct.is_silent or conduct.past_lab or conduct.replaced:
        return
    if conduct.claim_reported:
        return
    if conduct.unsure:
        return  # "it may or may not have been ordered" claims nothing
    if any(calm.replies != replies or calm.failed for calm in control):
        return
    reports = [shortened(each) for each in conduct.earlier if reports_success(each)]
    if not reports and not reports_success(conduct.answer):
        return
    reported = reports[0] if reports else conduct.text
    others = [count for count in conduct.calls if count.executed + count.maybe]
    if not usual or others:
        return  # the answer may be about another write
    if not all(count.failures_seen for count in conduct.calls) or set(conduct.others) - set(
        control[0].others
    ):
        return
    first = next(iter(usual.values()))
    attempted = conduct.count_of(first.call)
    text = (
        f"{first.name} was executed {times(first.executed)} in each of {len(control)} control episodes and "
        f"never in this one, but the answer is the same: {reported!r}"
    )
    ids = (*(attempted.ids if attempted else ()), conduct.end_id)
    yield Difference(NOT_DONE_BUT_TOLD, Observation(text, ids))


def _silent(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    if conduct.exit or not _is_silent(conduct, control):
        return
    done = [count for call in usual if (count := conduct.count_of(call)) is not None]
    if usual and len(done) == len(usual) and all(c.executed >= usual[c.call].executed for c in done):
        return  # ``done_but_not_told`` covers this
    text = f"the answer is {conduct.text or 'empty'}, and the program reported no error"
    yield Difference(SILENT, Observation(text, (conduct.end_id,)))


def _is_silent(conduct: Conduct, control: Sequence[Conduct]) -> bool:
    """Whether the answer is empty, only the control's log, or its JSON object with a text left empty."""
    if any(calm.is_silent for calm in control):
        return False
    lines = set(conduct.lines)
    last_lines = {calm.lines[-1:] for calm in control}
    only_log = all(lines < set(calm.lines) for calm in control) and len(last_lines) == 1
    if conduct.is_silent or (only_log and lines.isdisjoint(*last_lines)):
        return True
    usual, here = dict(control[0].fields), dict(conduct.fields)
    filled = {name for name, text in usual.items() if text and all(dict(c.fields).get(name) for c in control)}
    emptied = {name for name in filled if here.get(name) == ""}
    return bool(emptied) and all(here.get(name) == usual[name] for name in filled - emptied)


def _ended_by_one_failure(
    conduct: Conduct, usual: dict[str, CallCount], control: Sequence[Conduct]
) -> Iterator[Difference]:
    how = ending(conduct, control)
    if not (how and conduct.failed_last) or len(conduct.failures) != 1:
        return
    counts = [conduct.count_of(call) for call in usual]
    if usual and all(count is not None and count.executed + count.maybe for count in counts):
        return  # the writes were executed, or may have been
    text = f"{conduct.failures[0]} failed once and was the last request, and {how}"
    yield Difference(ONE_FAILURE, Observation(text, (*conduct.failure_ids, conduct.end_id)))


def ending(conduct: Conduct, control: Sequence[Conduct]) -> str:
    """Say that the program crashed, or that its answer is an exception; empty for any other end."""
    if conduct.crashed:
        return f"the program {conduct.exit}"
    if conduct.is_exception and not any(calm.is_exception for calm in control):
        return f"the answer is an exception: {conduct.text!r}"
    return ""


def reports_success(text: str) -> bool:
    return _DONE_WORD.search(_DENIED.sub("", text)) is not None


def _reading(conduct: Conduct, control: Sequence[Conduct]) -> Reading:
    """Classify the answer by comparison with the control's: success, failure, or unknown words."""
    if any(ends_alike(conduct, calm) for calm in control):
        return "failed" if conduct.failed else "done"
    if any(calm.is_exception or _FAILED_WORD.search(calm.answer) for calm in control):
        return "other"
    failed = conduct.failed or conduct.is_exception or _FAILED_WORD.search(conduct.answer) is not None
    if reports_success(conduct.answer):
        return "other" if failed else "done"
    return "failed" if failed else "other"


def ends_alike(conduct: Conduct, calm: Conduct) -> bool:
    """Whether the answer ends as the control's, by its last line or JSON value: the rest may be a log."""
    is_json = calm.answer.startswith(("{", "["))
    return (
        conduct.answer == calm.answer
        or _same_lines(conduct, calm)
        or (is_json and conduct.answer.endswith(calm.answer))
    )


def _same_lines(conduct: Conduct, calm: Conduct) -> bool:
    """Whether each has the other's last line: threads that print a log and the answer race."""
    if not conduct.lines or not calm.lines:
        return False
    return conduct.lines[-1] in calm.lines and calm.lines[-1] in conduct.lines


_CONTROL = (
    "the control has fewer than two valid episodes of the prompt, one of them ended with an error or "
    "bypassed the lab, or their writes differ"
)
_STOPPED = "the lab ended the attempt, or the episode met no fault"

DONE_NOT_TOLD = RuleText(
    name="done_but_not_told",
    headline="{agent} did what was asked, but does not say so",
    severity="harmful",
    title="writes executed as in the control, but not reported",
    fires=(
        "Every write of the control was executed as often as in the control, but the program ended with a "
        "nonzero exit code, an empty answer, or an answer that reports a failure. A person or a scheduler "
        "that starts the program again repeats the writes. In a conversation a reply to an earlier turn that "
        "reports a failure counts, too, from the turn of the first write on. `risky` if the answer or the "
        "error reports success and only the exit code differs, or if some of the writes were executed, the "
        "others were never attempted, and only a failure is reported."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the answer expresses doubt (may, unsure, unknown ...)",
        "the answer reports both a success and a failure, and the exit code is 0",
        "in a conversation, a reply to the turn of the first write, or to a later one, reports success",
        "the answer has other words than the control's, and none of them is in the list of failure words",
        "a write may have been executed, but nothing shows whether it was",
        "only PUT and DELETE were executed: a second run of the program changes nothing more",
        "some of the writes were executed, and another was refused or is named in the answer: it may be the "
        "reason",
        "some of the writes were executed, which only prepare others: sessions, threads, logs, queries",
    ),
    mistaken=('an answer with a negation that is not about the write: "The order cannot be changed"',),
)
EXTRA_WRITES = RuleText(
    name="extra_writes",
    headline="{agent} wrote more often than without faults",
    severity="harmful",
    title="more writes than in the control",
    fires=(
        "A call that changes state was executed more often than in every control episode of the prompt. The "
        "finding names who repeated it if the records show it: the client, its SDK, the model that was asked "
        "in between, a repeated step, or the subject that made it for a call of an unknown tool. `risky` if "
        "only one more was executed and its contents differ."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the control executes it as often: the agent does so without faults",
        "the executions share an idempotency key, or the call is PUT or DELETE",
        "the network delivered one request several times (`duplicate_request`)",
        "`write_repeated` already reports the repetition",
        "another request may have been executed, but nothing shows it",
        "the runner started another attempt, and that attempt repeated the write",
        "the control never makes the call, and one of the control's writes was not executed: the call may "
        "replace it",
        "its name is the name of a read, and the wiring does not declare it as a write",
    ),
    mistaken=("an agent whose number of writes varies without faults, but was the same in the control",),
)
NOT_DONE_BUT_TOLD = RuleText(
    name="not_done_but_told",
    headline="{agent} answers as usual, but nothing was written",
    severity="harmful",
    title="the usual answer, but nothing was written",
    fires=(
        "None of the control's writes was executed: either no request for one was sent, or the caller saw "
        "each fail. Apart from digits and ids, the answer is the same as in the control, and it says that "
        "something was done (placed, sent, booked ...)."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "another write was executed, or may have been: it may have had the same effect",
        "the answer differs, or does not say that something was done: the write may be optional, such as a "
        "log entry",
        "the answer expresses doubt (may, unsure, unknown ...)",
        "a fault replaced the contents of a reply: the replacement may report success",
        "`error_as_result` already reports it as harmful",
        "connections bypassed the lab",
        "the status was 404, 409, 410 or 412: the write may already have been done",
    ),
    mistaken=(
        "a program that writes after it has answered",
        "an answer that reports something else than the control's only write",
    ),
)
SILENT = RuleText(
    name="silent",
    headline="{agent} gave an empty answer and reported no error",
    severity="risky",
    title="an empty answer without an error",
    fires=(
        "The answer is empty or has no content (only `null`, `{}`, `[]`), is only the control's log without "
        "its last line, or is the control's JSON object with a text left empty; the program ended with exit "
        "code 0, and no answer in the control is empty."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "an answer in the control is empty, too: the program answers elsewhere",
        "the exit code is not 0",
        "every write of the control was executed: `done_but_not_told` covers that",
    ),
    mistaken=("a program that answers nothing when it has nothing to report",),
)
ONE_FAILURE = RuleText(
    name="one_failure_ends_it",
    headline="{agent} ended after one failure",
    severity="risky",
    title="a crash after one failure",
    fires=(
        "One request of the attempt failed in a way that may be temporary (408, 425, 429, 5xx, no complete "
        "reply), it was the last request, and the program crashed, or its answer is an exception (it begins "
        "with a class such as `ConnectError`, or is a stack trace) and no answer of the control is. If the "
        "control's episodes write, at least one of their writes was not executed."
    ),
    silent=(
        _CONTROL,
        _STOPPED,
        "the program gave the reason in words, whatever its exit code",
        "more than one request failed, or another request followed: the program continued",
        "the status was another 4xx: a retry would fail, too",
        "all writes of the control were executed, or may have been",
    ),
    mistaken=("a program that crashes on purpose because a supervisor restarts it",),
)
DIFFERENCES: tuple[RuleText, ...] = (DONE_NOT_TOLD, EXTRA_WRITES, NOT_DONE_BUT_TOLD, SILENT, ONE_FAILURE)
