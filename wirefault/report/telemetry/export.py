"""Send a recording's spans over OTLP/HTTP, by OpenTelemetry's SDK (extra ``wirefault[otel]``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from wirefault._version import __version__
from wirefault.core.errors import InputError, UserError
from wirefault.experiments.recorded import Recording
from wirefault.history.reader import HistoryError, read_run
from wirefault.judging.judge import judge_run
from wirefault.report.telemetry import conventions as names
from wirefault.report.telemetry.spans import Context, Span, run_spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own variables: with one of them set, each run is exported at its end."""
_BATCH = 512
_TRACES = "/v1/traces"


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the environment asks for the export of every run."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return any(environ.get(name) for name in ENDPOINTS) and not off and not none


def recording_spans(recording: Recording) -> Iterator[Span]:
    """Yield the spans of all runs of the recording. Raises ``InputError`` if a history cannot be read."""
    for arm in recording.arms.values():
        for run_id in arm.run_ids:
            try:
                judged = judge_run(read_run(arm.logs, run_id)).by_control(arm.control)
            except (HistoryError, OSError, ValueError) as error:
                raise InputError(f"the history of {run_id} cannot be read: {error}") from None
            saved = recording.experiment
            experiment = recording.id if saved is not None and not saved.plan.is_plain_run else ""
            yield from run_spans(judged, experiment=experiment, arm=arm.name)


def export(recording: Recording, url: str = "") -> int:
    """Send the recording's spans and return their number.

    ``url``: the collector's base address or its path for traces; without it OpenTelemetry's variables say
    where to, with which headers and how long to try. Raises ``InputError`` for a bad address, ``UserError``
    if the extra is missing or the collector did not take them.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise UserError(f"OpenTelemetry needs {error.name}: pip install 'wirefault[otel]'") from None
    resource = Resource.create({names.SERVICE_NAME: "wirefault", names.SERVICE_VERSION: __version__})
    spans = [_readable(span, resource) for span in recording_spans(recording)]
    exporter: Any = OTLPSpanExporter(endpoint=_traces_url(url) if url else None)
    try:
        for start in range(0, len(spans), _BATCH):
            if exporter.export(spans[start : start + _BATCH]) is not SpanExportResult.SUCCESS:
                raise UserError(f"no collector at {_place(url)} took the spans")
    finally:
        exporter.shutdown()
    return len(spans)


def _place(url: str) -> str:
    """Return where the spans went, without credentials in the address."""
    return _without_user(_traces_url(url)) if url else "the address of OpenTelemetry's variables"


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _traces_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"--otlp {_without_user(url)}: must be an address such as http://127.0.0.1:4318")
    return parts._replace(path=_TRACES).geturl() if parts.path in ("", "/") else url


def _readable(span: Span, resource: Any) -> Any:
    """Return the span as one of OpenTelemetry's SDK."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode

    error: dict[str, Any] = {names.ERROR_TYPE: span.error} if span.error else {}
    return ReadableSpan(
        name=span.name,
        context=_span_context(span.context),
        parent=_span_context(span.parent) if span.parent else None,
        resource=resource,
        attributes={**span.attributes, **error},
        events=[Event(each.name, each.attributes, _nanoseconds(each.at)) for each in span.events],
        links=[Link(_span_context(link)) for link in span.links],
        kind={"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}[span.kind],
        status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
        instrumentation_scope=InstrumentationScope("wirefault", __version__, names.SCHEMA_URL),
    )


def _span_context(context: Context) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(
        context.trace, context.span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1_000
