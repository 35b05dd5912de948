"""Words for readers: the legend, and verdicts in plain words."""

from __future__ import annotations

from collections.abc import Mapping

VERDICTS: Mapping[str, str] = {
    "held": "every statement was true",
    "deviated": "a statement was not true",
    "unknown": "what was recorded does not decide it",
    "aborted": "stopped before its end",
    "no verdict": "it has not ended",
    "interrupted": "it was stopped or killed before its end, and can be resumed",
    "ended early": "it did not run to its end, and can be resumed",
    "perhaps worse": "the episodes do not decide it",
    "not judged": "no episode of the first was judged, so success is not compared",
}
"""Of experiments and comparisons."""

LEGEND: tuple[tuple[str, str], ...] = (
    (
        "agent, model, tool, lab",
        "The agent is what is tested. The model answers it, tools do things for it, and"
        " the lab (Wirefault) breaks the links between them.",
    ),
    (
        "episode, attempt, call, try",
        "An episode is one prompt in one repetition; an attempt at it; a call of a"
        " model or tool; one HTTP request of that call.",
    ),
    (
        "fault, toxic",
        "A fault changes single requests or replies; a toxic breaks connections (cut, slow, lost).",
    ),
    (
        "eligible, drawn, armed, met, injected, observed, delivered",
        "The stages of a fault: it could act here;"
        " it was chosen; it was set; a request crossed it; it changed that request; the side it was meant for"
        " shows it; it counts as having arrived.",
    ),
    (
        "arm, control, control-after",
        "An arm is one way to run the same prompts. The control has no faults;"
        " control-after runs once more at the end, to show that nothing was left broken.",
    ),
    (
        "world, claim, value",
        "The world: the state that is left, compared with the request. The claim: what the agent"
        " says it did. The value: the figure or word that it reports.",
    ),
    ("held, deviated, unknown", "A statement was true, was not true, or the episodes do not decide it."),
    (
        "check, claim (of a statement)",
        "A check is about the episodes that ran: one counterexample breaks it. A claim"
        " is about a rate: the whole interval must satisfy it.",
    ),
    (
        "interval, n",
        "n is the number of episodes or pairs. A 90 % interval misses the true rate in at most 5 % of"
        " experiments on each side; runs without a hypothesis show 95 %, or 2.5 % on each side.",
    ),
    ("points", "Percentage points: from 80 % to 60 % is -20 points."),
    ("upstream said, agent got", "The reply as the tool or model sent it, and as the agent received it."),
    (
        "SDK, code, step, model",
        "Who sent a request again: the client library, the agent's code, the code or a framework that"
        " repeated a larger step, or the model that asked for the call once more.",
    ),
    (
        "HARM, RISK, WASTE, note",
        "Harm was done or claimed falsely; harm is possible next time; it costs time or money;"
        " information only.",
    ),
    (
        "kill, recovered",
        "A fault killed the agent's processes and the lab resumed them. They have recovered when the"
        " interrupted request succeeds; if that is not sent again, with the first reply that no earlier"
        " process received, or an attempt that ends with an answer.",
    ),
    ("–", "Nothing to show here: not asked, not measured, or not reached."),
)
"""The vocabulary of the pages."""
