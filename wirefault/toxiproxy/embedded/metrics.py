"""The bytes that passed, for Prometheus, as the real server shows them with ``-proxy-metrics``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal

_LABELS = ("direction", "listener", "proxy", "upstream")
_COUNTED = ("received", "sent")
_HANDLER = "promhttp_metric_handler_errors_total"
_HANDLER_HELP = "Total number of internal errors encountered by the promhttp metric handler."
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class Metrics:
    """Bytes by their labels. A connection is counted when it has ended; unless ``enabled``, nothing is."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._bytes: dict[str, Counter[tuple[str, ...]]] = {counted: Counter() for counted in _COUNTED}

    def counter(self, proxy: str, listener: str, upstream: str) -> Callable[[str, str, int], None]:
        """Adds, for a direction, to what was ``received`` or ``sent``."""

        def count(direction: str, counted: str, size: int) -> None:
            if self.enabled:
                self._bytes[counted][direction, listener, proxy, upstream] += size

        return count

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head(_HANDLER, _HANDLER_HELP)
        yield from (f'{_HANDLER}{{cause="{cause}"}} 0' for cause in ("encoding", "gathering"))
        for counted in _COUNTED:
            name = f"toxiproxy_proxy_{counted}_bytes_total"
            if self._bytes[counted]:
                yield from _head(name, "")
            for values, size in sorted(self._bytes[counted].items()):
                labels = ",".join(map('{}="{}"'.format, _LABELS, map(_escaped, values)))
                yield f"{name}{{{labels}}} {_number(size)}"


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} counter"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(size: int) -> str:
    """As Prometheus writes it: from a million on with an exponent."""
    if size < 10**6:
        return str(size)
    mantissa, _, exponent = f"{Decimal(size).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03}"
