"""Traces: trace contexts, and the tracer that sends spans. Every layer above runtime may import it.

Only `otel` imports OpenTelemetry.
"""
