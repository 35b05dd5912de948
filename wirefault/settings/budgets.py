"""Limits on what an episode and a run may use, read from a file and stored as text in the settings.

episode: {tokens: 10000, cost: 1.00, calls: 100, requests_a_minute: 60, time: 60s, memory: 512MB}
run: {cost: 5.00}
warn_at: 80 %
mode: degrading
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from wirefault.core.errors import nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import PlainDataError, plain_data, read_yaml, short_repr
from wirefault.wiring.spec_file import Spec

BudgetMode = Literal["hard", "degrading", "end"]
BudgetScope = Literal["episode", "run"]
# limits that the runner enforces
OF_SUBJECT = ("episode.time", "episode.memory")
_OF_TOKENS = ("tokens", "cost")
_OF_CALLS = ("calls", "requests_a_minute", "concurrent")
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SHARE = {"%": 0.01}


def _in_units(units: Mapping[str, float]) -> Callable[[object], object]:
    """Convert a text such as ``60s`` to a number of base units; a number stays as it is."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        amount = _AMOUNT.fullmatch(value)
        if amount is None or amount[2] not in units:
            raise ValueError(f"must be a number and one of {', '.join(units)}, not {value[:40]!r}")
        return round(float(amount[1]) * units[amount[2]], 9)

    return read


def _bytes(value: object) -> object:
    read = _in_units(_BYTES)(value)
    return round(read) if isinstance(read, float) and math.isfinite(read) else read


_NUMBER_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
_Duration = Annotated[float, Field(gt=0), BeforeValidator(_in_units(_SECONDS)), _NUMBER_OR_TEXT]
_Memory = Annotated[int, Field(ge=2**20), BeforeValidator(_bytes), _NUMBER_OR_TEXT]
_Share = Annotated[float, Field(gt=0, le=1), BeforeValidator(_in_units(_SHARE)), _NUMBER_OR_TEXT]


class Budget(Spec):
    """Limits on what a run may use; None means no limit."""

    tokens: int | None = Field(
        None, ge=1, description="tokens in and out, as the model's replies report them"
    )
    cost: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="US dollars for these tokens, by `prices`"
    )
    calls: int | None = Field(None, ge=1, description="requests forwarded")
    requests_a_minute: int | None = Field(
        None, ge=1, le=10_000, description="requests forwarded in any 60 seconds"
    )
    concurrent: int | None = Field(None, ge=1, description="requests in progress at once")
    time: _Duration | None = Field(None, description="since the first request: 60s, 5 min")


class EpisodeBudget(Budget):
    """Limits on one episode. The subject process is ended when it exceeds its time or memory."""

    time: _Duration | None = Field(None, description="for all attempts of the episode together: 60s, 5 min")
    memory: _Memory | None = Field(
        None, description="resident memory of the subject's processes together: 512MB, 1GiB"
    )


class Budgets(Spec):
    """The budgets of a run, for the gateway and the runner."""

    episode: EpisodeBudget = EpisodeBudget()
    run: Budget = Budget()
    warn_at: _Share = Field(0.8, description="the share of a budget at which a warning is recorded")
    mode: BudgetMode = Field(
        "hard",
        description="what happens when a budget is used up: `hard`, the provider's refusal; `degrading`,"
        " slower from 50 % on (up to 1 s a request), then 429, at the end 402; `end`, the refusal, and the"
        " episode ends as `runaway`",
    )
    links: Literal["models", "tools", "all"] = Field(
        "models", description="where calls, requests_a_minute and concurrent are counted"
    )
    pool: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,150}$",
        description="runs with the same pool share their `run` budget; an experiment sets it for an arm",
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Budgets:
        if self.episode == EpisodeBudget() and self.run == Budget():
            raise ValueError("missing a budget: set one under `episode` or `run`, such as tokens: 10000")
        return self

    def limits(self) -> Iterator[tuple[str, float]]:
        """Return each limit by its path, such as ``episode.tokens``."""
        for scope, budget in (("episode", self.episode), ("run", self.run)):
            for name, limit in budget.model_dump(exclude_none=True).items():
                yield f"{scope}.{name}", limit

    def counts_calls_of(self, *, of_model: bool) -> bool:
        """Return whether a request on a model link (or tool link) counts as one of the limited calls."""
        return self.links in ("all", "models" if of_model else "tools")

    def at_gateway(self, *, of_model: bool) -> dict[BudgetScope, Budget]:
        """Return the limits that a request on such a link counts against; scopes without any are left out.

        Only model requests use tokens and cost. The gateway does not track an episode's time and memory.
        """
        names = [
            *(_OF_TOKENS if of_model else ()),
            *(_OF_CALLS if self.counts_calls_of(of_model=of_model) else ()),
        ]
        scopes: dict[BudgetScope, Budget] = {
            "episode": _only(self.episode, names),
            "run": _only(self.run, [*names, "time"] if names else ()),
        }
        return {scope: budget for scope, budget in scopes.items() if budget != Budget()}

    @property
    def counts_cost(self) -> bool:
        return self.episode.cost is not None or self.run.cost is not None

    def dump(self) -> str:
        """Return canonical JSON, which ``load_budgets`` can read."""
        return json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True)


def _only(budget: Budget, names: Iterable[str]) -> Budget:
    return Budget.model_construct(**{name: getattr(budget, name) for name in names})


def budgets_in_full(value: str) -> str:
    """Read the budgets file at that path, or return budgets that are text already; empty stays empty.

    Raises ``ValueError`` that names the file and the key, ``OSError`` if there is no such file.
    """
    if not value.strip() or value.lstrip().startswith("{") or "\n" in value:
        return canonical_budgets(value)
    try:
        return canonical_budgets(read_input(Path(value)), value)
    except UnicodeDecodeError:
        raise ValueError(f"{value}: not UTF-8 text") from None


def canonical_budgets(text: str, where: str = "text") -> str:
    """Return the budgets as canonical JSON; empty stays empty. Raises ``ValueError`` that names the key."""
    if not text.strip():
        return ""
    try:
        return _checked(plain_data(read_yaml(text, where), where)).dump()
    except PlainDataError:
        raise
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _checked(value: object) -> Budgets:
    try:
        return Budgets.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{_place(first['loc'])}{_reason(first)}") from None


# The budgets of an experiment: a mapping, a file name, or None.
BudgetsGiven = Annotated[
    Budgets | str | None,
    BeforeValidator(lambda value: _checked(value) if isinstance(value, dict) else value),
]


def _place(location: tuple[int | str, ...]) -> str:
    return "".join(f"{key}: " for key in [".".join(map(str, location))] if key)


def _reason(error: Any) -> str:
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    scope = {"episode": EpisodeBudget, "run": Budget}.get(str(error["loc"][0]), Budgets)
    known = tuple((scope if len(error["loc"]) > 1 else Budgets).model_fields)
    return f"no such key{nearest(str(error['loc'][-1]), known)}"


def load_budgets(canonical: str) -> Budgets | None:
    """Load the budgets from a run's settings; None if it has none."""
    return Budgets.model_validate_json(canonical) if canonical else None


def with_pool(canonical: str, pool: str) -> str:
    """Return budgets whose run budget is shared with other runs; unchanged without a run budget."""
    budgets = load_budgets(canonical)
    if budgets is None or budgets.run == Budget() or budgets.pool:
        return canonical
    return budgets.model_copy(update={"pool": pool}).dump()


def without_pool(canonical: str) -> str:
    """Return the same budgets for a run that shares nothing."""
    budgets = load_budgets(canonical)
    return budgets.model_copy(update={"pool": ""}).dump() if budgets else canonical


_FIELDS = ("input", "output")
# the system limits the size of a process's environment
_MAX_BYTES = 100_000


@dataclass(frozen=True)
class Price:
    """In US dollars per million tokens."""

    input: float
    output: float

    def usd(self, tokens_in: int | None, tokens_out: int | None) -> float:
        """The cost of these tokens; unknown ones cost nothing."""
        return ((tokens_in or 0) * self.input + (tokens_out or 0) * self.output) / 1_000_000


def prices_in_full(value: str) -> str:
    """Read the price file at that path, or return prices that are text already; empty stays empty.

    Raises ``ValueError`` that names the file, the model and the field, ``OSError`` if there is no such file.
    """
    if not value.strip() or value.lstrip().startswith("{") or "\n" in value:
        return canonical_prices(value)
    return canonical_prices(_read(Path(value)), value)


def _read(path: Path) -> str:
    try:
        return read_input(path)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None


def canonical_prices(text: str, where: str = "text") -> str:
    """Return the prices as JSON, by model name. Raises ``ValueError``."""
    if not text.strip():
        return ""
    models = plain_data(read_yaml(text, where), where)
    if not isinstance(models, dict) or not models:
        raise ValueError(f"{where}: must be a mapping: model: {{input: 2.5, output: 10}}")
    prices = {name: asdict(_price(value, f"{where}: {name}")) for name, value in sorted(models.items())}
    canonical = json.dumps(prices, ensure_ascii=False)
    if len(canonical.encode()) > _MAX_BYTES:
        raise ValueError(f"{where}: larger than {_MAX_BYTES} bytes; leave out the models that are not used")
    return canonical


def load_prices(canonical: str) -> Mapping[str, Price]:
    """Return the prices by model name; none for an empty text."""
    return {name: Price(**fields) for name, fields in json.loads(canonical or "{}").items()}


def _price(value: Any, where: str) -> Price:
    fields = value if isinstance(value, dict) else {}
    for name in fields:
        if name not in _FIELDS:
            raise ValueError(f"{where}.{name}: no such field{nearest(name, _FIELDS)}")
    for name in _FIELDS:
        if not _is_amount(fields.get(name)):
            value = short_repr(fields[name]) if name in fields else "nothing"
            raise ValueError(f"{where}.{name}: must be US dollars per million tokens, not {value}")
    return Price(float(fields["input"]), float(fields["output"]))


def _is_amount(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0
