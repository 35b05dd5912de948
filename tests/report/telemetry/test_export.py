"""Spans over OTLP/HTTP: to a receiver that decodes the protocol, and through a real collector."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from tests.report.synthetic import SyntheticRun
from tests.support import free_port, required, until
from wirefault.cli.main import main
from wirefault.core.errors import InputError, UserError
from wirefault.experiments.recorded import Recording, open_recording
from wirefault.report.telemetry.export import export, is_wanted

pytest.importorskip("opentelemetry.sdk")
COLLECTOR = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{otlphttp: {{endpoint: "{sink}", sending_queue: {{enabled: false}}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlphttp]}}}}
"""


class Sink(ThreadingHTTPServer):
    """Decodes what it receives at /v1/traces by OpenTelemetry's own message classes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        assert isinstance(self.server, Sink)
        body = self.rfile.read(int(self.headers["content-length"]))
        request = ExportTraceServiceRequest()
        request.ParseFromString(
            gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        )
        for resource in request.resource_spans:
            self.server.resources.append(
                {each.key: each.value.string_value for each in resource.resource.attributes}
            )
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def collector(folder: Path, sink: Sink) -> Iterator[str]:
    """Run a real collector in front of the sink, and yield its address."""
    program = shutil.which("otelcol")
    if program is None:
        assert not required("collector"), "no otelcol on PATH; .ci/collector.sh builds one"
        pytest.skip("no otelcol on PATH")
    url = f"http://127.0.0.1:{(port := free_port())}"
    (folder / "otelcol.yaml").write_text(COLLECTOR.format(port=port, sink=sink.url), encoding="utf-8")
    process = subprocess.Popen([program, "--config", folder / "otelcol.yaml"], stderr=subprocess.DEVNULL)

    def is_up() -> bool:
        assert process.poll() is None
        try:
            return requests.get(url, timeout=1).status_code < 500
        except requests.RequestException:
            return False

    try:
        until(is_up, "the collector")
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    SyntheticRun(tmp_path, prompts=8, settings={"error_prob": 0.4}).write()
    return open_recording(tmp_path, "run-a", os.environ)


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def check(recording: Recording, sink: Sink) -> None:
    """The spans have the episodes, outcomes and faults of the recording, as its page does."""
    summary = recording.arms[""].summary
    spans = [(span, attributes(span)) for span in sink.spans]
    outcomes = {a["wirefault.episode.id"]: a["wirefault.outcome"] for s, a in spans if s.name == "episode"}
    assert outcomes == {each.episode: each.outcome for each in summary.episodes}
    faults = Counter(
        (a["fault.kind"], a["fault.link"], a["fault.stage"]) for s, a in spans if s.name.startswith("fault ")
    )
    recorded = [fault for each in summary.episodes for fault in each.faults if fault.stage != "drawn"]
    assert faults == Counter((fault.kind, fault.link, fault.stage) for fault in recorded) and faults
    ids = {span.span_id for span in sink.spans}
    assert (
        len(ids) == len(spans) and {span.parent_span_id for span in sink.spans if span.parent_span_id} <= ids
    )
    assert {resource["service.name"] for resource in sink.resources} == {"wirefault"}


def test_receiver_gets_what_the_page_shows(recording: Recording, sink: Sink) -> None:
    assert export(recording, sink.url) == len(sink.spans)
    check(recording, sink)


@pytest.mark.slow
def test_collector_takes_and_passes_on_every_span(recording: Recording, sink: Sink, tmp_path: Path) -> None:
    with collector(tmp_path, sink) as url:
        number = export(recording, url)
    assert len(sink.spans) == number
    check(recording, sink)


def test_report_sends_spans(recording: Recording, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGS_DIR", str(recording.arms[""].logs))
    result = CliRunner().invoke(main, ["report", "run-a", "--otlp", f"{sink.url}/v1/traces"])
    assert f"spans exported: {len(sink.spans)}" in result.output


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://a", "http://", "x"])
def test_bad_address_is_one_line(recording: Recording, url: str) -> None:
    with pytest.raises(InputError, match="must be an address such as"):
        export(recording, url)


def test_absent_collector_is_named_without_credentials(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with pytest.raises(UserError) as raised:
        export(recording, f"http://user:s3cret@127.0.0.1:{free_port()}")
    assert "no collector at http://127.0.0.1" in str(raised.value) and "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_variables_of_opentelemetry_ask_for_export(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted
