"""What is not set costs nothing: this process, like most, reports to nobody."""

import sys

from foundation.telemetry import traces


def test_nothing_that_reports_is_loaded_where_no_address_is_set():
    loaded = {"sentry_sdk", "opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"}
    assert loaded & sys.modules.keys() == set()


def test_steps_are_not_even_timed():
    spans = traces.Spans()
    spans.end("lock and read")
    spans.trace(["pay_1"])
    assert spans._ends == []
