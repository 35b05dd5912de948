"""What the client gets of a budget, as faults of the catalogue: so each dialect has its provider's own words.

They are recorded like any other fault of the gateway, under an id that says which budget it was.
"""

from __future__ import annotations

from wirefault.dialects.base import typed_error
from wirefault.dialects.registry import DIALECTS
from wirefault.faults.base import Act, Fault, Try
from wirefault.faults.catalogue.errors import request_id
from wirefault.faults.catalogue.http.delay import Delay
from wirefault.faults.catalogue.http.named import Quota, RateLimit
from wirefault.gateway.budgets.account import Overdrawn

_PAYMENT_REQUIRED = 402


class _Unpaid(Quota):
    """The used-up quota as 402: so Anthropic's API says it, and many a server that speaks other APIs."""

    def act(self, tried: Try) -> Act:
        dialect = DIALECTS[tried.dialect]
        form = dialect.errors["quota"]
        if form.status == _PAYMENT_REQUIRED:
            return super().act(tried)
        error = typed_error(
            dialect, _PAYMENT_REQUIRED, "payment_required", form.message, id=request_id(tried)
        )
        return self.answer_with(error, kind=self.name)


def refusing_fault(refused: Overdrawn) -> Fault:
    """Answers in the provider's place."""
    if refused.how == "spent":
        return Quota()
    if refused.how == "unpaid":
        return _Unpaid()
    return RateLimit(retry_after=refused.retry_after)


def slowing_fault(seconds: float) -> Fault:
    """Lets the request go on later."""
    return Delay(ms=round(seconds * 1000, 3))
