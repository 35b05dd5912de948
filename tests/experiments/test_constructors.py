"""Public constructors: a wrong argument is one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import wirefault
from wirefault import Arm, Baseline, Experiment, Matrix, Safety
from wirefault.core.errors import InputError
from wirefault.experiments.assertions.answers import AnswerContains
from wirefault.faults.registry import REGISTRY


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (Experiment, {}, "Experiment: title is missing: state the claim under test"),
        (Experiment, {"title": 3}, "Experiment: title: Input should be a valid string, not 3"),
        (Experiment, {"fautls": []}, "Experiment: fautls: no such key; did you mean 'faults'?"),
        (Experiment, {"title": "a", "repeats": 0}, "Experiment: repeats: Input should be greater"),
        (Experiment, {"checks": ["no duplicat"]}, "did you mean 'duplicate'?"),
        (Experiment, {"prompts": ["a", 3]}, "Experiment: prompts[2]: "),
        (Experiment, {"safety": {"abrt": []}}, "Experiment: safety.abrt: no such key; did you mean 'abort'?"),
        (
            Experiment,
            {"variants": {"m": {"fault": ""}}},
            "variants.m.fault: no such key; did you mean 'faults'?",
        ),
        (Arm, {"faults": 3}, "Arm: faults: "),
        (Baseline, {"settings": 3}, "Baseline: settings: "),
        (Matrix, {"model": []}, "Matrix: model: no such key; valid: faults, doses"),
        (Safety, {"abort": 3}, "Safety: abort: Input should be a valid list, not 3"),
        (AnswerContains, {"txt": "a"}, "AnswerContains: txt: no such key"),
    ],
)
def test_wrong_argument_is_named(kind: Callable[..., object], arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        kind(**arguments)
    assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", REGISTRY)
def test_unknown_parameter_of_a_fault_is_named(name: str) -> None:
    with pytest.raises(InputError, match=r"^\w+: no_such: no such key"):
        REGISTRY[name](no_such=1)


def test_every_public_model_explains_its_arguments() -> None:
    models = [getattr(wirefault, name) for name in wirefault.__all__]
    models = [each for each in models if isinstance(each, type) and issubclass(each, BaseModel)]
    assert {Arm, Baseline, Experiment, Matrix, Safety} <= set(models)
    for each in models:
        with pytest.raises(InputError, match=f"^{each.__name__}: no_such: no such key"):
            each(no_such=1)
