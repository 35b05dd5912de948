"""Opens a wiring's subject of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects.command import CommandSubject
from wirefault.subjects.http_agent import running_agent
from wirefault.subjects.lab_process import needs_process, running_lab_agent
from wirefault.subjects.loading import LAB_SUBJECT, load_subject
from wirefault.subjects.python import running_python
from wirefault.subjects.service import running_service
from wirefault.subjects.subject import Subject
from wirefault.subjects.surroundings import make_surroundings
from wirefault.subjects.taps.opening import open_tap
from wirefault.subjects.taps.tap import NO_TAP, Tap
from wirefault.subjects.taps.watch import WatchedSubject, allowed
from wirefault.subjects.taps.watch_pipes import watched_for_pipes
from wirefault.wiring.links import LAB
from wirefault.wiring.subject_spec import CommandSpec, HttpSpec, PythonSpec, ServiceSpec
from wirefault.wiring.wiring import Wiring


def open_wired_subject(wiring: Wiring, configuration: Configuration) -> AbstractContextManager[Subject]:
    """Open the subject for one run; its processes end with the block.

    Raises ``SettingsError``, here or on entering the block, if it cannot be started.
    """
    faults = configuration.settings.faults
    if wiring.subject == LAB and faults and needs_process(read_canonical(faults)):
        return running_lab_agent(configuration)
    if wiring.subject == LAB:
        return load_subject(LAB_SUBJECT)(configuration)
    return _started(wiring, configuration)


@contextmanager
def _started(wiring: Wiring, configuration: Configuration) -> Iterator[Subject]:
    runs_already = isinstance(wiring.subject, HttpSpec)  # its connections are opened elsewhere
    opening = nullcontext(NO_TAP) if runs_already else open_tap(wiring, configuration)
    with opening as tap, _opened(wiring, configuration, tap) as subject:
        if wiring.intercept is not None and tap.kind is not None:
            subject = watched_for_pipes(subject)
        if wiring.intercept is not None and tap.watched:
            yield WatchedSubject(subject, allowed(configuration.topology, wiring.intercept))
        else:
            yield subject


def _opened(wiring: Wiring, configuration: Configuration, tap: Tap) -> AbstractContextManager[Subject]:
    surroundings = make_surroundings(wiring, configuration, tap)
    match wiring.subject:
        case CommandSpec() as spec:
            return nullcontext(CommandSubject(spec, surroundings))
        case ServiceSpec() as spec:
            return running_service(spec, surroundings)
        case HttpSpec() as spec:
            return nullcontext(running_agent(spec, surroundings))
        case PythonSpec() as spec:
            return running_python(spec, surroundings)
        case _:
            raise SettingsError(f"{wiring.file or 'the wiring'}: missing subject: name one under `subject`")
