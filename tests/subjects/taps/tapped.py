"""A command behind a tap, whose ingress answers itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.wired import Wired
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.sockets import Address
from wirefault.subjects.process import ProcessGroup
from wirefault.subjects.taps.opening import open_tap
from wirefault.subjects.taps.tap import Tap
from wirefault.wiring.wiring import NO_WIRING, InterceptSpec

_BOUND_S = 60


def behind(ingress: Address, topology: Path, folder: Path, environ: Mapping[str, str] = os.environ) -> Wired:
    """Wirings of the lab with that ingress."""
    wired = Wired(folder, {**environ, TOPOLOGY_VARIABLE: str(topology)})
    wired.addresses = {"ingress": ingress, "control": ingress}
    return wired


@contextmanager
def opened(
    ingress: AnsweringIngress, folder: Path, kind: str, environ: Mapping[str, str] = os.environ
) -> Iterator[Tap]:
    """The tap of that kind, or ``auto``."""
    wired = behind(ingress.address, ingress.topology, folder, environ)
    with open_tap(replace(NO_WIRING, intercept=InterceptSpec(tap=kind)), wired.configuration) as tap:
        yield tap


def run(tap: Tap, command: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """The output of the command behind the tap; it must succeed."""
    group = ProcessGroup(tap.words(command), tap.environ(environ or os.environ), folder)
    try:
        assert group.wait(_BOUND_S)
    finally:
        group.close()
    printed = group.stdout.take().text
    assert group.exit_code == 0, printed + group.stderr.take().text
    return printed


def places(printed: str) -> list[str]:
    """The URLs, without paths, for which the ingress got connections."""
    answers = [json.loads(line) for line in printed.splitlines()]
    return [f"{answer['way']}://{answer['host']}:{answer['port']}" for answer in answers]
