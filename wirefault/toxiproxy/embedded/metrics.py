"""The page ``/metrics`` for Prometheus: bytes of the proxies, and figures of this process."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

_LABELS = ("direction", "listener", "proxy", "upstream")
_COUNTED = ("received", "sent")
_HANDLER = "promhttp_metric_handler_errors_total"
_HANDLER_HELP = "Total number of internal errors encountered by the promhttp metric handler."
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_PROCESS = Path("/proc/self")


class Metrics:
    """Byte counters for Prometheus (``proxies``), counted when a connection ends, and figures of the process
    (``runtime``).
    """

    def __init__(self, *, proxies: bool, runtime: bool = False) -> None:
        self._proxies, self._runtime, self._start_s = proxies, runtime, time.time()
        self._bytes: dict[str, Counter[tuple[str, ...]]] = {counted: Counter() for counted in _COUNTED}

    @property
    def enabled(self) -> bool:
        return self._proxies or self._runtime

    def counter(self, proxy: str, listener: str, upstream: str) -> Callable[[str, str, int], None]:
        """A function that adds bytes ``received`` or ``sent`` in a direction."""

        def count(direction: str, counted: str, size: int) -> None:
            if self._proxies:
                self._bytes[counted][direction, listener, proxy, upstream] += size

        return count

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        if self._runtime:
            yield from _process_lines(self._start_s)
        yield from _head(_HANDLER, "counter", _HANDLER_HELP)
        yield from (f'{_HANDLER}{{cause="{cause}"}} 0' for cause in ("encoding", "gathering"))
        for counted in _COUNTED:
            name = f"toxiproxy_proxy_{counted}_bytes_total"
            if self._bytes[counted]:
                yield from _head(name, "counter", "")
            for values, size in sorted(self._bytes[counted].items()):
                labels = ",".join(map('{}="{}"'.format, _LABELS, map(_escaped, values)))
                yield f"{name}{{{labels}}} {_number(size)}"


def _process_lines(start_s: float) -> Iterator[str]:
    """Figures with the names of Prometheus' own clients; those that the system does not have are left out."""
    times = os.times()
    figures: list[tuple[str, str, str, float]] = [
        ("cpu_seconds_total", "counter", "User and system CPU time in seconds.", times.user + times.system),
        ("max_fds", "gauge", "Maximum number of open files.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    ]
    with suppress(OSError):  # macOS has no /proc
        open_files = len(list((_PROCESS / "fd").iterdir()))
        virtual, resident = map(int, (_PROCESS / "statm").read_text(encoding="ascii").split()[:2])
        page = resource.getpagesize()
        figures += [
            ("open_fds", "gauge", "Number of open files.", open_files),
            ("resident_memory_bytes", "gauge", "Resident memory in bytes.", resident * page),
            ("virtual_memory_bytes", "gauge", "Virtual memory in bytes.", virtual * page),
        ]
    figures.append(("start_time_seconds", "gauge", "Start of the process, in seconds since 1970.", start_s))
    for name, kind, text, value in sorted(figures):
        yield from _head(f"process_{name}", kind, text)
        yield f"process_{name} {value:g}" if kind == "counter" else f"process_{name} {value!r}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(size: int) -> str:
    """The number as Prometheus writes it: with an exponent from a million on."""
    if size < 10**6:
        return str(size)
    mantissa, _, exponent = f"{Decimal(size).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03}"
