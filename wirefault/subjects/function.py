"""A function, coroutine function, class or object of this process as the subject of an experiment.

It is called in a thread of its own, always the same; coroutines share one event loop there, or run in the
loop that the caller names.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import ctypes
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from wirefault.subjects.python import python_context
from wirefault.subjects.python_worker import METHODS, callable_of, context_argument
from wirefault.subjects.results import AttemptOver, converse, crash_result
from wirefault.subjects.subject import (
    AttemptContext,
    LabFailed,
    MakeTurn,
    Subject,
    SubjectResult,
    limit_reached,
)
from wirefault.subjects.taps.this_process import TapInUseError, ThisProcessTap

_POLL_S = 0.02
# for a function to end after its time
_END_BOUND_S = 2.0
_BY_NAME = (
    'name the function in the wiring, {"subject": {"python": "module:function"}}:'
    " it then runs in a process that can be ended"
)

Probe = Callable[..., object]


def function_label(function: object) -> str:
    """Return the name of a function, a class or an object's class, with its module."""
    named = function if inspect.isroutine(function) or inspect.isclass(function) else type(function)
    name = getattr(named, "__qualname__", type(function).__qualname__)
    return f"{getattr(named, '__module__', '')}:{name}"


def check_function(subject: object) -> None:
    """Raise ``ValueError`` if the object cannot be called with a prompt."""
    kind = subject if inspect.isclass(subject) else type(subject)
    defined = {name for ancestor in kind.__mro__ for name in vars(ancestor)}
    if defined.isdisjoint(("__call__", *METHODS)):
        raise ValueError(
            f"must be a function, or an object with __call__ or one of {', '.join(METHODS)},"
            f" not {subject!r:.60}"
        )


class FunctionSubject(Subject):
    """Calls the function for each turn. Its answer is a text, a JSON value, or ``{"response": text}``.

    ``loop``: runs its coroutines. ``poll`` is called while it works; it may raise. ``before(context)`` and
    ``after(context, answer)`` are called around each attempt, with their connections not intercepted.
    """

    holds_conversations = True

    def __init__(
        self,
        function: object,
        *,
        tap: ThisProcessTap | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        poll: Callable[[], object] = lambda: None,
        before: Probe | None = None,
        after: Probe | None = None,
    ) -> None:
        check_function(function)
        self.name = f"in this process: {function_label(function)}"
        self.probed: dict[tuple[str, int], object] = {}
        self._function = function
        self._tap = tap
        self._loop = loop
        self._poll = poll
        self._before, self._after = before, after
        self._thread = _Thread()
        self._abandoned: list[_Abandoned] = []

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        earlier = self._abandoned = [call for call in self._abandoned if not call.future.done()]
        if any(call.is_active for call in earlier):
            raise LabFailed(f"a coroutine of an earlier attempt runs although it was cancelled; {_BY_NAME}")
        result = self._attempt(prompt, context)
        if any(call.future.done() for call in earlier):
            raise LabFailed(f"the function returned from an earlier attempt during this one; {_BY_NAME}")
        if earlier and result.ended_by == "limit":
            raise LabFailed(
                "the function still hangs in an earlier attempt, which may be why it hangs in this one;"
                f" {_BY_NAME}"
            )
        return result

    def _attempt(self, prompt: str, context: AttemptContext) -> SubjectResult:
        abandoned = len(self._abandoned)
        if self._before is not None:
            self._probe("before", self._before, python_context(context, 1, {}))
        agent = self._made(context)
        result: SubjectResult | None = None
        with self._intercepted():
            unstruck = replace(context, make_turn=self._unstruck(context.make_turn))
            result = converse(
                prompt,
                unstruck,
                lambda text, number, seconds: self._turn(agent, text, number, seconds, context),
            )
        if self._after is not None and len(self._abandoned) == abandoned:
            last = python_context(context, max(len(result.answers), 1), {})
            identity = context.identity
            self.probed[identity.episode, identity.attempt] = self._probe(
                "after", self._after, last, result.response
            )
        return result

    @contextmanager
    def _intercepted(self) -> Iterator[None]:
        """Intercept connections within the block."""
        try:
            with self._tap.active() if self._tap else nullcontext():
                yield
        except TapInUseError as error:
            raise LabFailed(str(error)) from None

    def stop(self) -> None:
        """End its thread once its call returns."""
        self._thread.close()
        self._thread = _Thread()

    def _made(self, context: AttemptContext) -> Callable[..., object]:
        """The function to call; a class is made anew for each attempt."""
        subject: Any = self._function
        if inspect.isclass(subject):
            try:
                subject = self._wait(self._thread.begin(subject), context.settings.attempt_time)
            except Exception as error:
                raise LabFailed(f"{self.name}: cannot be made: {type(error).__name__}: {error}") from error
        function = callable_of(subject)
        assert function is not None  # by ``check_function``
        return function

    def _turn(
        self, agent: Callable[..., object], text: str, number: int, seconds: float, context: AttemptContext
    ) -> object:
        more = context_argument(agent, python_context(context, number, {}))
        call = self._thread.begin(lambda: agent(text, **more), self._loop)
        try:
            return self._wait(call, seconds)
        except concurrent.futures.TimeoutError:
            if not call.done():
                self._end(call)
                raise AttemptOver(limit_reached(context.settings.attempt_time)) from None
            raise AttemptOver(crash_result(TimeoutError("the function raised TimeoutError"))) from None
        except KeyboardInterrupt:  # the run ends, and the function with it
            self._thread.interrupt()
            raise
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - its crash
            crash = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
            raise AttemptOver(crash_result(crash)) from None

    def _end(self, call: concurrent.futures.Future[Any]) -> None:
        """End the call as a process would be ended; one that does not end is left behind in its thread."""
        task = self._thread.interrupt()
        if self._tap is not None:
            self._tap.close_connections()
        concurrent.futures.wait([call], _END_BOUND_S)
        if task is not None and not call.done() and self._loop is None:
            self._thread.interrupt_function()
            concurrent.futures.wait([call], _END_BOUND_S)
        if not call.done():
            is_active = task is not None and self._loop is not None
            self._abandoned = [*self._abandoned, _Abandoned(call, is_active)]
            self._thread = _Thread()
        elif task is not None and not task.done():
            self._thread = _Thread()  # nothing runs the other thread's loop any more
        else:
            self._thread.withdraw()

    def _probe(self, name: str, probe: Probe, *arguments: object) -> object:
        try:
            return self._wait(self._thread.begin(lambda: probe(*arguments), self._loop), None)
        except Exception as error:
            raise LabFailed(f"{name}_attempt raised {type(error).__name__}: {error}") from error

    def _wait(self, call: concurrent.futures.Future[Any], seconds: float | None) -> Any:
        """Raises what the call raises, ``TimeoutError`` after that time, and what ``poll`` raises."""
        end = None if seconds is None else time.monotonic() + seconds
        while not call.done():
            concurrent.futures.wait([call], _POLL_S)
            self._poll()
            if end is not None and time.monotonic() >= end and not call.done():
                raise concurrent.futures.TimeoutError
        return call.result()

    def _unstruck(self, make_turn: MakeTurn | None) -> MakeTurn | None:
        """The function that makes turns, with its connections not intercepted."""
        if make_turn is None or self._tap is None:
            return make_turn
        paused: Callable[[], AbstractContextManager[None]] = self._tap.paused

        def made(conversation: list[dict[str, str]]) -> str | None:
            with paused():
                return make_turn(conversation)

        return made


@dataclass(frozen=True)
class _Abandoned:
    """A call that did not end."""

    future: concurrent.futures.Future[Any]
    is_active: bool
    """It is a coroutine that ignored its cancellation; else it waits, and runs no code."""


class _TakenAtOnce(BaseException):
    """Raised in the thread that interrupts another one, see there."""


class _Thread:
    """One thread that makes all calls, in the context variables of its maker. It never keeps the process
    alive.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._variables = contextvars.copy_context()
        self._thread: threading.Thread | None = None
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def begin(
        self, function: Callable[[], object], loop: asyncio.AbstractEventLoop | None = None
    ) -> concurrent.futures.Future[Any]:
        """Call it; a coroutine runs in ``loop``, or in this thread's loop."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(self._variables.run(self._result_of, function, loop))
            except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - raised there
                future.set_exception(error)

        self._calls.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="wirefault subject", daemon=True)
            self._thread.start()
        return future

    def interrupt(self) -> asyncio.Task[Any] | None:
        """Cancel the coroutine in progress and return its task; interrupt anything else."""
        if self._task is None:
            self.interrupt_function()
            return None
        loop, task = self._task
        loop.call_soon_threadsafe(task.cancel)
        return task

    def interrupt_function(self) -> None:
        """Raise ``SystemExit`` in this thread once it runs Python code, and not while it waits for a lock."""
        self._raise(ctypes.py_object(SystemExit))
        if self._task is not None:
            self._task[0].call_soon_threadsafe(lambda: None)  # wakes a loop that waits

    def withdraw(self) -> None:
        """Take the exception back if its function has returned before it."""
        self._raise(None)

    def _raise(self, exception: ctypes.py_object[type[BaseException]] | None) -> None:
        if self._thread is None or self._thread.ident is None:
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), exception)
        # CPython 3.11 clears its mark of a pending exception only in a thread that takes one. With the mark,
        # a profiler or a debugger loops for ever at the next call, so this thread takes one at once. Nothing
        # may be called here but C.
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(threading.get_ident()), ctypes.py_object(_TakenAtOnce)
            )
            while True:
                pass
        except _TakenAtOnce:
            pass

    def close(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            self._runner = runner
            while True:
                try:
                    if (call := self._calls.get()) is None:
                        return
                    call()
                except (SystemExit, concurrent.futures.InvalidStateError):
                    pass  # the exception of ``interrupt_function`` came when the function had just returned

    def _result_of(self, function: Callable[[], object], loop: asyncio.AbstractEventLoop | None) -> object:
        result = function()
        if not inspect.isawaitable(result):
            return result
        if loop is None:
            return self._runner.run(self._tracked(result), context=self._variables.copy())
        return asyncio.run_coroutine_threadsafe(self._tracked(result), loop).result()

    def _tracked(self, awaitable: Any) -> Coroutine[Any, Any, object]:
        async def awaited() -> object:
            task = asyncio.current_task()
            assert task is not None
            self._task = asyncio.get_running_loop(), task
            try:
                return await awaitable
            finally:
                self._task = None

        return awaited()
