"""The bytes that passed, for Prometheus: what the real server shows under ``-proxy-metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal

LABELS = ("direction", "listener", "proxy", "upstream")
HELD = ("received", "sent")
HANDLER = "promhttp_metric_handler_errors_total"
HANDLER_HELP = "Total number of internal errors encountered by the promhttp metric handler."
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class Metrics:
    """Bytes by their labels; a connection is counted when it has ended. Not ``enabled``: nothing is kept."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._bytes: dict[str, Counter[tuple[str, ...]]] = {held: Counter() for held in HELD}

    def counter(self, proxy: str, listener: str, upstream: str) -> Callable[[str, str, int], None]:
        """Adds, for a direction, to what was ``received`` or ``sent``."""

        def count(direction: str, held: str, size: int) -> None:
            if self.enabled:
                self._bytes[held][direction, listener, proxy, upstream] += size

        return count

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head(HANDLER, HANDLER_HELP)
        yield from (f'{HANDLER}{{cause="{cause}"}} 0' for cause in ("encoding", "gathering"))
        for held in HELD:
            name = f"toxiproxy_proxy_{held}_bytes_total"
            if self._bytes[held]:
                yield from _head(name, "")
            for values, size in sorted(self._bytes[held].items()):
                labels = ",".join(map('{}="{}"'.format, LABELS, map(_escaped, values)))
                yield f"{name}{{{labels}}} {_number(size)}"


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} counter"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(size: int) -> str:
    """From a million on with an exponent."""
    if size < 10**6:
        return str(size)
    mantissa, _, exponent = f"{Decimal(size).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03}"
