"""Evaluators of other packages as checks of an episode's answer: pydantic-evals and DeepEval.

They are recognised by their methods, so that neither package is a dependency. They run after the episode, so
that no fault acts on their own requests.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from wirefault.experiments.episode_view import EpisodeView, NothingToJudge, NotRecorded
from wirefault.judging.checker import CheckResult

Check = Callable[[EpisodeView], CheckResult]


def as_check(evaluator: object, at_least: float | None = None) -> Check:
    """Make a check of an evaluator of pydantic-evals, a metric of DeepEval, or a function of the episode.

    ``at_least``: the lowest score that passes; without it a score alone is no verdict. Raises ``TypeError``.
    """
    if isinstance(evaluator, type):
        raise TypeError(f"{evaluator.__name__} is a class: give an instance, {evaluator.__name__}(...)")
    if _is_pydantic_eval(evaluator):
        judge: Callable[[EpisodeView], CheckResult] = _PydanticEval(evaluator, at_least)
    elif _is_deepeval_metric(evaluator):
        judge = _DeepEvalMetric(evaluator, at_least)
    elif callable(evaluator):
        judge = _Function(evaluator)
    else:
        raise TypeError(
            f"{evaluator!r:.80} is not a check: give a function of the episode, an evaluator of"
            " pydantic-evals or a metric of DeepEval"
        )
    name = getattr(evaluator, "__name__", type(evaluator).__name__)

    def check(view: EpisodeView) -> CheckResult:
        try:
            result = judge(view)
        except NothingToJudge as nothing:
            result = CheckResult(passed=None, message=str(nothing), applies=False)
        except NotRecorded as gap:
            result = CheckResult(passed=None, message=str(gap))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - which tells nothing of the subject
            result = CheckResult(passed=None, message=f"{name} raised {type(error).__name__}: {error}")
        return replace(result, name=result.name or name)

    check.__name__ = name
    return check


def is_evaluator(value: object) -> bool:
    """Whether it has the methods of an evaluator of pydantic-evals or of a metric of DeepEval."""
    return not isinstance(value, type) and (_is_pydantic_eval(value) or _is_deepeval_metric(value))


def _is_pydantic_eval(value: object) -> bool:
    return callable(getattr(value, "evaluate_sync", None)) and hasattr(value, "evaluate")


def _is_deepeval_metric(value: object) -> bool:
    return callable(getattr(value, "measure", None)) and hasattr(value, "is_successful")


@dataclass(frozen=True)
class _Function:
    function: Callable[..., Any]

    def __call__(self, view: EpisodeView) -> CheckResult:
        result = awaited(self.function(view))
        if isinstance(result, CheckResult):
            return result
        if result is None or isinstance(result, bool):
            return CheckResult(passed=result, message="" if result is not None else "it returned None")
        raise NotRecorded(f"it returned {result!r:.40}, not True, False, None or CheckResult")


@dataclass(frozen=True)
class _PydanticEval:
    """``evaluate_sync(context)`` returns a value, a value with its reason, or several by name."""

    evaluator: Any
    at_least: float | None

    def __call__(self, view: EpisodeView) -> CheckResult:
        output = _in_thread(lambda: self.evaluator.evaluate_sync(self._context(view)))
        results = output if isinstance(output, Mapping) else {"": output}
        truths = [self._truth(getattr(each, "value", each)) for each in results.values()]
        judged = [truth for truth in truths if truth is not None]
        measured = "; ".join(f"{name + ': ' if name else ''}{_text(each)}" for name, each in results.items())
        if not judged:
            return CheckResult(passed=None, measured=measured, message=_NO_VERDICT)
        return CheckResult(passed=all(judged), measured=measured, expected=_expected(self.at_least))

    def _truth(self, value: object) -> bool | None:
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float) and self.at_least is not None:
            return value >= self.at_least
        return None

    def _context(self, view: EpisodeView) -> Any:
        metadata = dict(view.started.metadata)
        fields = {
            "name": view.episode,
            "inputs": view.prompt,
            "metadata": metadata,
            "expected_output": metadata.get("expected_output"),
            "output": _answer(view),
            "duration": view.seconds,
            "attributes": {},
            "metrics": {},
        }
        with suppress(ImportError):
            package = import_module("pydantic_evals.evaluators")
            error = import_module("pydantic_evals.otel").SpanTreeRecordingError
            return package.EvaluatorContext(**fields, _span_tree=error("the lab records no spans"))
        return SimpleNamespace(**fields)


@dataclass(frozen=True)
class _DeepEvalMetric:
    """``measure(test_case)`` sets score and reason; ``is_successful()`` compares with its threshold."""

    metric: Any
    at_least: float | None

    def __call__(self, view: EpisodeView) -> CheckResult:
        _in_thread(lambda: self.metric.measure(self._test_case(view)))
        if error := getattr(self.metric, "error", None):
            raise NotRecorded(str(error))
        score, reason = getattr(self.metric, "score", None), getattr(self.metric, "reason", None) or ""
        if score is None:
            raise NotRecorded("it set no score")
        passed = bool(self.metric.is_successful()) if self.at_least is None else score >= self.at_least
        threshold = getattr(self.metric, "threshold", None) if self.at_least is None else self.at_least
        measured = f"{score:g}" + (f" ({reason})" if reason else "")
        return CheckResult(passed=passed, measured=measured, expected=_expected(threshold))

    def _test_case(self, view: EpisodeView) -> Any:
        metadata = dict(view.started.metadata)
        fields: dict[str, Any] = {"input": view.prompt, "actual_output": _answer(view)}
        fields |= {name: metadata[name] for name in _DEEPEVAL_FIELDS if name in metadata}
        with suppress(ImportError):
            return import_module("deepeval.test_case").LLMTestCase(**fields)
        return SimpleNamespace(**{**dict.fromkeys(_DEEPEVAL_FIELDS), **fields})


_DEEPEVAL_FIELDS = ("expected_output", "context", "retrieval_context")
_NO_VERDICT = "it gives a score or a label, not a verdict: name the lowest score that passes (at_least)"


def _answer(view: EpisodeView) -> str:
    answer = view.answer
    if answer is None:
        raise NothingToJudge("the episode has no answer")
    return answer


def _text(result: object) -> str:
    reason = getattr(result, "reason", None)
    value = getattr(result, "value", result)
    return f"{value}" + (f" ({reason})" if reason else "")


def _expected(threshold: object) -> str:
    return "" if threshold is None else f"at least {threshold}"


def awaited(result: Any) -> Any:
    """Return the result, of an awaitable also where this thread runs an event loop: then in another one."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return _in_thread(lambda: asyncio.run(wait()))


def _in_thread(work: Callable[[], Any]) -> Any:
    """The result of the work in another thread if this one runs an event loop, else in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="evaluator")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
