"""What an experiment may spend as a whole: after it no episode begins, and what is left can be resumed."""

from __future__ import annotations

from pydantic import Field

from wirefault.experiments.quantities import Duration
from wirefault.wiring.spec import Spec


class Spending(Spec):
    """Of one flight of the experiment: one that is resumed has them anew."""

    time: Duration | None = Field(
        None, gt=0, description="seconds, or with a unit, such as 10min: later no episode begins"
    )
    cost: float | int | None = Field(
        None, gt=0, description="USD, where `prices` has all models: once they are spent no episode begins"
    )
