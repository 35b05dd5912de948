"""Natural against observed: for each arm, what the upstream said, what the agent got and what it answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.history.events import AttemptEnded, Exchange
from wirefault.judging.both_sides import both_sides
from wirefault.report.tables import new_table, one_line

_WIDTH, _MAX_ROWS = 38, 3
_NOTE = (
    "of each arm's first episode that a fault reached, the last reply that it changed; recovered: of the"
    " episodes that a fault reached, those that ended in success"
)


@dataclass(frozen=True)
class Replies:
    """``recovered`` of ``reached`` episodes ended in success although a fault reached them."""

    arm: str
    natural: str
    observed: str
    answer: str
    outcome: str
    recovered: int
    reached: int


def replies_of(recording: Recording) -> Iterator[Replies]:
    """Yield a row for each arm with faults that reached an episode."""
    for name, arm in recording.arms.items():
        reached = [episode for episode in arm.summary.episodes if episode.delivered()]
        if reached:
            recovered = sum(episode.outcome == "success" for episode in reached)
            yield _row(name, arm, reached[0].episode, str(reached[0].outcome), recovered, len(reached))


def _row(name: str, arm: RecordedArm, episode: str, outcome: str, recovered: int, reached: int) -> Replies:
    events = [event for event in arm.events if getattr(event, "episode", None) == episode]
    ended = next(event for event in reversed(events) if isinstance(event, AttemptEnded))
    exchanges = [event for event in events if isinstance(event, Exchange) and event.attempt == ended.attempt]
    sides = both_sides(exchanges)
    answer = ended.report.answer if ended.report else ended.response or f"{ended.error_type or 'no answer'}"
    natural, observed = (None, None) if sides is None else (sides.natural, sides.observed)
    return Replies(
        name,
        "not asked" if natural is None else natural,
        "nothing" if observed is None else observed,
        answer,
        outcome,
        recovered,
        reached,
    )


def print_replies(console: Console, recording: Recording, *, verbose: bool = False) -> None:
    """Print the rows as a table; nothing without any. Of many, the others by name unless ``verbose``."""
    all_rows = list(replies_of(recording))
    rows = all_rows if verbose or len(all_rows) <= _MAX_ROWS else all_rows[:_MAX_ROWS]
    if not rows:
        return
    table = new_table("arm", "outcome", "recovered", "", "words", text_columns=(0, 1, 3, 4))
    for row in rows:
        sides = (("upstream", row.natural), ("agent got", row.observed), ("it answered", row.answer))
        for place, (side, text) in enumerate(sides):
            figures = (row.arm, row.outcome, f"{row.recovered} of {row.reached}") if place == 0 else ("",) * 3
            table.add_row(*figures, side, _short(text))
    console.print()
    console.print(table)
    if names := ", ".join(row.arm for row in all_rows[len(rows) :]):
        console.print(Text(f"--verbose shows the replies of: {names}"), soft_wrap=True)
    else:
        console.print(_NOTE, style="dim")


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
