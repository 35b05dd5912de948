"""``wirefault lab insurance``: a claim that fails in some turns, with and without mitigations, and its cost.

Both conversations have the same messages, seed and failure modes. Every figure is counted in their replies.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.conversation.chat import Chat, ChatRequest
from wirefault.conversation.store import Store
from wirefault.conversation.worker import Worker
from wirefault.core.errors import InputError, nearest
from wirefault.core.identity import new_run_id
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.yaml_text import load_yaml
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.report.plain_table import table_lines
from wirefault.settings.configuration import Configuration

CLAIM, COSTS = (Path(__file__).with_name(name) for name in ("insurance.yaml", "insurance_costs.yaml"))
WITHOUT, WITH = "without", "with"
_SESSION, _MINUTE_S, _BOUND = "claim", 60.0, 10
Outcome = Literal["right", "wrong", "no answer"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ClaimTurn(_Part):
    """One message. ``expect``: a part of every right answer; ``mode``: its failure mode, empty for none."""

    name: str
    say: str
    expect: str
    mode: str = ""


class Claim(_Part):
    """The conversation, and the RECOVERY text of the side with mitigations."""

    mitigations: str
    turns: tuple[ClaimTurn, ...]


class NotDone(_Part):
    """Counts 1 if the turn of this name was not answered rightly."""

    not_done: str


class CostItem(_Part):
    """A cost, in the file's currency, that counts once ``per`` event."""

    payer: str = Field(alias="for", min_length=1)
    item: str = Field(min_length=1)
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    per: Literal["model_call", "tool_call", "minute", "wrong_answer", "handoff"] | NotDone


class Costs(_Part):
    """A cost model."""

    currency: str = Field("", max_length=10)
    items: tuple[CostItem, ...] = Field(min_length=1)


def load_claim() -> Claim:
    """Return the claim that comes with Wirefault."""
    return Claim.model_validate(load_yaml(CLAIM.read_text(encoding="utf-8")))


def load_costs(file: Path, claim: Claim) -> Costs:
    """Read a cost model. Raises ``InputError`` with the file, the place and the problem."""
    try:
        costs = Costs.model_validate(load_yaml(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from None
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"] if part != "NotDone")
        raise InputError(f"{file}: {place or 'the file'}: {problem['msg']}") from None
    except ValueError as error:
        line = getattr(error, "line", None)
        raise InputError(f"{file}{f':{line}' if line else ''}: {error}") from None
    names = [turn.name for turn in claim.turns]
    for number, item in enumerate(costs.items):
        if isinstance(item.per, NotDone) and item.per.not_done not in names:
            name = item.per.not_done
            raise InputError(f"{file}: items.{number}.per: unknown turn {name!r}{nearest(name, names)}")
    return costs


@dataclass(frozen=True)
class Answered:
    """How one turn ended. ``seconds``: the time that the customer waited."""

    name: str
    mode: str
    outcome: Outcome
    response: str
    natural: str | None
    recovered_by: str
    model_calls: int
    tool_calls: int
    seconds: float

    @property
    def text(self) -> str:
        by = f" by {self.recovered_by}" if self.recovered_by and self.outcome == "right" else ""
        return f"{self.outcome}{by}, {self.model_calls}+{self.tool_calls} calls, {self.seconds:.1f} s"


def answered(turn: ClaimTurn, reply: Mapping[str, Any]) -> Answered:
    """Return how a turn ended, from the reply of the conversation. Pure."""
    response, metadata, natural = reply["response"], reply["metadata"], reply["natural_response"]
    requests = [row for row in metadata["time_line"] if row["kind"] == "request"]
    of_model = sum(row["link"] == "model" for row in requests)
    outcome: Outcome = "no answer"
    if reply["status"] in ("success", "failure"):
        outcome = "right" if reply["status"] == "success" and turn.expect in response else "wrong"
    helped = [each["strategy"] for each in metadata["recoveries"] if each["success"]]
    by, seconds = ", ".join(dict.fromkeys(helped)), round(reply["processing_time_ms"] / 1000, 3)
    calls = of_model, len(requests) - of_model
    return Answered(turn.name, turn.mode, outcome, response, natural, by, *calls, seconds)


@dataclass(frozen=True)
class Side:
    """One conversation. ``run_id`` names its run in the history."""

    name: str
    run_id: str
    recovery: str
    turns: Sequence[Answered]

    @cached_property
    def counts(self) -> dict[str, float]:
        """The events that a cost model may count; a turn without an answer is handed to a clerk."""
        return {
            "model_call": sum(turn.model_calls for turn in self.turns),
            "tool_call": sum(turn.tool_calls for turn in self.turns),
            "minute": sum(turn.seconds for turn in self.turns) / _MINUTE_S,
            "wrong_answer": sum(turn.outcome == "wrong" for turn in self.turns),
            "handoff": sum(turn.outcome == "no answer" for turn in self.turns),
        }

    def count(self, item: CostItem) -> float:
        """Return how often the item's event happened."""
        if isinstance(item.per, NotDone):
            name = item.per.not_done
            return sum(turn.name == name and turn.outcome != "right" for turn in self.turns)
        return self.counts[item.per]

    def total(self, costs: Costs, payer: str) -> float:
        """Return the cost of that payer."""
        return sum(item.cost * self.count(item) for item in costs.items if item.payer == payer)


@dataclass(frozen=True)
class Insurance:
    """Both conversations and their costs."""

    seed: int
    costs: Costs
    sides: Sequence[Side]

    @property
    def payers(self) -> list[str]:
        return list(dict.fromkeys(item.payer for item in self.costs.items))

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "seed": self.seed,
            "currency": self.costs.currency,
            "sides": {
                side.name: {
                    "run_id": side.run_id,
                    "recovery": side.recovery,
                    "turns": [asdict(turn) for turn in side.turns],
                    "counts": side.counts,
                    "costs": [
                        {
                            **item.model_dump(by_alias=True),
                            "count": side.count(item),
                            "amount": side.count(item) * item.cost,
                        }
                        for item in self.costs.items
                    ],
                    "totals": {payer: side.total(self.costs, payer) for payer in self.payers},
                }
                for side in self.sides
            },
        }

    def lines(self, width: int) -> Iterator[str]:
        """Yield the tables: turn by turn, what happened, and what it cost."""
        head = ("turn", "failure mode", *(f"{side.name} mitigations" for side in self.sides))
        turns = zip(*(side.turns for side in self.sides), strict=True)
        rows = [
            (f"{number} {both[0].name}", both[0].mode or "none", *(turn.text for turn in both))
            for number, both in enumerate(turns, start=1)
        ]
        yield from table_lines(head, rows, width)
        yield ""
        columns = tuple(side.name for side in self.sides)
        counted = [
            (name, *(f"{side.counts[key] * factor:{form}}" for side in self.sides))
            for name, key, factor, form in _COUNTED
        ]
        yield from table_lines(("what happened", *columns), counted, width)
        yield ""
        yield from table_lines((f"cost ({self.costs.currency})", *columns), list(self._cost_rows()), width)
        yield ""
        for side in self.sides:
            yield f"{side.name}: RECOVERY={side.recovery}  wirefault show {side.run_id} {_SESSION}"

    def _cost_rows(self) -> Iterator[tuple[str, ...]]:
        for payer in self.payers:
            for item in self.costs.items:
                if item.payer == payer:
                    yield (f"{payer}: {item.item}", *(_amount(item, side.count(item)) for side in self.sides))
            yield (f"{payer}, total", *(f"{side.total(self.costs, payer):,.2f}" for side in self.sides))


def _amount(item: CostItem, count: float) -> str:
    times = f"{count:.0f}" if float(count).is_integer() else f"{count:.2f}"
    return f"{times} x {item.cost:g} = {count * item.cost:,.2f}"


_COUNTED = (
    ("requests to the model", "model_call", 1, "g"),
    ("requests to tools", "tool_call", 1, "g"),
    ("seconds waited", "minute", _MINUTE_S, ".1f"),
    ("wrong answers", "wrong_answer", 1, "g"),
    ("turns handed to a clerk", "handoff", 1, "g"),
)


def run_insurance(
    configuration: Configuration, toxiproxy: Choice, costs: Costs, claim: Claim, say: Callable[[str], None]
) -> Insurance:
    """Hold both conversations in one lab, one after the other. Raises ``LabError`` and ``UserError``."""
    sides = []
    with tempfile.TemporaryDirectory() as folder, Lab(configuration, toxiproxy) as lab:
        environ = {**configuration.environ, TOPOLOGY_VARIABLE: str(lab.topology_path)}
        configuration = replace(configuration, environ=environ, topology=lab.topology)
        for name, recovery in ((WITHOUT, "none"), (WITH, claim.mitigations)):
            say(f"{name} mitigations: {len(claim.turns)} turns")
            store = Store(f"sqlite:///{Path(folder) / name}.db", time.time)
            run_id = new_run_id()
            worker = Worker(_BOUND)
            worker.start(configuration, lab, run_id, say)
            try:
                turns = [_turn(worker, Chat(store, time.time), turn, recovery) for turn in claim.turns]
            finally:
                worker.stop()
                store.close()
            sides.append(Side(name, run_id, recovery, turns))
    return Insurance(configuration.settings.seed, costs, sides)


def _turn(worker: Worker, chat: Chat, turn: ClaimTurn, recovery: str) -> Answered:
    request = ChatRequest(
        session_id=_SESSION, message=turn.say, failure_mode=turn.mode or "none", recovery=recovery
    )
    return answered(turn, worker.do(lambda run, memories: chat.answer(run, memories, request)).result())


def insurance_text(result: Insurance, width: int, *, as_json: bool) -> str:
    """Return the tables, or one JSON object."""
    return json.dumps(result.as_json()) if as_json else "\n".join(result.lines(width))
