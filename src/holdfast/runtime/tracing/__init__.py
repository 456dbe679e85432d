"""Traces: what belongs to which, and the tracer that sends spans. Only `otel` imports OpenTelemetry."""
