"""Traces of recorded runs for OpenTelemetry."""
