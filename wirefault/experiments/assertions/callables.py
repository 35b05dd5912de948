"""Assertions of a user's own: a Python function that is given what the others look at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.user_functions import checked_function_name, load_function
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.assertions.result import AssertionResult, NothingToJudge, NotRecorded


class CallableAssertion(Assertion):
    """The function says so: it is given an `EpisodeView`, or with `over: arm` all of them.

    It returns True, False, None for unknown, or an `AssertionResult`.
    """

    name = "callable"
    main = "function"
    needs = "a function that returns; one that raises leaves it unknown"

    function: Annotated[str, AfterValidator(checked_function_name)] = Field(
        description="module:function, or file.py:function of a file beside the experiment's"
    )
    over: Literal["episode", "arm"] = Field("episode", description="of each episode, or once of an arm")

    @property
    def expected(self) -> str:
        return f"{self.function.rpartition(':')[2]} says so"

    def check(self, view: EpisodeView) -> AssertionResult:
        return self._asked(view)

    def check_arm(self, views: Sequence[EpisodeView]) -> AssertionResult:
        """What it says of all episodes of an arm. Raises ``NotRecorded``."""
        return self._asked(views)

    @cached_property
    def _loaded(self) -> Callable[..., object]:
        return load_function(self.function)

    def _asked(self, given: object) -> AssertionResult:
        try:
            function = self._loaded
        except ValueError as error:
            raise NotRecorded(str(error)) from None
        try:
            with redirect_stdout(sys.stderr):
                said = function(given)
        except (NotRecorded, NothingToJudge):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - which tells nothing of the subject
            raise NotRecorded(f"{self.function} raised {type(error).__name__}") from None
        if isinstance(said, AssertionResult):
            return said
        if said is None or isinstance(said, bool):
            return AssertionResult(passed=said, message="" if said is not None else "it does not tell")
        raise NotRecorded(f"{self.function} returned {said!r:.40}, not True, False, None or AssertionResult")

    @model_validator(mode="after")
    def _of_one_kind(self) -> CallableAssertion:
        if self.over == "arm" and (self.turn is not None or self.episodes != 1):
            raise ValueError("over: arm is asked once: it goes with no `turn` or `episodes`")
        return self
