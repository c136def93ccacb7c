"""Traces of payments for OpenTelemetry, if a collector is set: from the request to settlement and webhooks.

All spans of a payment are in one trace, although processes make them that know nothing of each other: the ids of the
trace and of its first span follow from the payment's id. Each span is made once its end is known, from times that were
taken or stored. Without a collector, nothing of OpenTelemetry is imported here.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache, wraps
from hashlib import sha256
from itertools import pairwise
from multiprocessing.util import Finalize
from typing import Any, ParamSpec

from django.conf import settings

from foundation.kernel.repeated_logs import OnceAMinute, log_once_a_minute
from foundation.kernel.version import VERSION

log = logging.getLogger(__name__)
_P = ParamSpec("_P")
# A collector that does not answer in this time is away.
_TIMEOUT_S, _LAST_S = 5, 2
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
# The ids of the payment whose first span this thread begins.
_first = threading.local()


def is_on() -> bool:
    """Tell whether anybody gets traces."""
    return bool(settings.OTEL_EXPORTER_OTLP_ENDPOINT)


def now_ns() -> int:
    """Return the time of a span's beginning or end, in nanoseconds since 1970."""
    return time.time_ns()


def to_ns(moment: datetime) -> int:
    """Return a stored time as the time of a span."""
    return round(moment.timestamp() * 1e9)


def _harmless(add: Callable[_P, None]) -> Callable[_P, None]:
    """Let what goes wrong while a payment is traced never fail the payment: it is only logged."""

    @wraps(add)
    def added(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            add(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the payment is committed, whatever a library of others does
            log_once_a_minute(log, logging.WARNING, "A payment cannot be traced: %s", type(error).__name__)

    return added


@_harmless
def add_first_span(payment_id: str, name: str, began: int, ended: int, *, parent: str, **attributes: Any) -> None:
    """Add the first span of a payment's trace. `parent` is the caller's `traceparent`, which is only linked."""
    _first.ids = ids_of(payment_id)
    try:
        _tracer().start_span(
            name, start_time=began, links=_links(parent), attributes=_attributes(payment_id, attributes)
        ).end(ended)
    finally:
        _first.ids = None


@_harmless
def add_span(payment_id: str, name: str, began: int, ended: int, *, is_error: bool = False, **attributes: Any) -> None:
    """Add a span to a payment's trace, below its first one: its name, its beginning and its end."""
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - not installed where it is not used

    span = _tracer().start_span(
        name, _below_first(payment_id), start_time=began, attributes=_attributes(payment_id, attributes)
    )
    if is_error:
        span.set_status(StatusCode.ERROR)
    span.end(ended)


class Spans:
    """The spans of a piece of work, each of which begins where the one before ends. Nothing unless traces are on."""

    def __init__(self) -> None:
        self._ends = [("", now_ns())] if is_on() else []

    def end(self, name: str) -> None:
        """End a span."""
        if self._ends:
            self._ends.append((name, now_ns()))

    def trace(self, payments: Iterable[str]) -> None:
        """Add the spans to the traces of all payments that they were made for."""
        if self._ends:
            for payment_id in payments:
                for (_, began), (name, ended) in pairwise(self._ends):
                    add_span(payment_id, name, began, ended)


def close() -> None:
    """Send what is still here, at the end of a process; a collector that is away does not hold it up."""
    if _provider.cache_info().currsize:
        sending = threading.Thread(target=_provider().shutdown, daemon=True)
        sending.start()
        sending.join(_LAST_S)


def ids_of(payment_id: str) -> tuple[int, int]:
    """Derive the ids of a payment's trace (128 bits) and of its first span (64 bits)."""
    made = sha256(f"allowance trace {payment_id}".encode()).digest()
    return int.from_bytes(made[:16], "big"), int.from_bytes(made[16:24], "big")


@cache
def _provider() -> Any:
    """Start sending, in the process that adds its first span: it has been forked by then."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415

    class Ids(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            ids = getattr(_first, "ids", None)
            return ids[0] if ids else super().generate_trace_id()

        def generate_span_id(self) -> int:
            ids = getattr(_first, "ids", None)
            return ids[1] if ids else super().generate_span_id()

    logging.getLogger(_EXPORTER).addFilter(OnceAMinute())
    resource = Resource.create({"service.name": f"allowance-{settings.PROCESS}", "service.version": VERSION})
    provider = TracerProvider(resource=resource, id_generator=Ids(), shutdown_on_exit=False)
    address = f"{settings.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces"
    exporter = OTLPSpanExporter(address, headers=settings.OTEL_EXPORTER_OTLP_HEADERS, timeout=_TIMEOUT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    Finalize(None, close, exitpriority=0)  # at the end of a child process, too
    return provider


@cache
def _tracer() -> Any:
    return _provider().get_tracer("allowance", VERSION)


def _below_first(payment_id: str) -> Any:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context  # noqa: PLC0415

    trace_id, span_id = ids_of(payment_id)
    first = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(first))


def _links(traceparent: str) -> list[Any]:
    from opentelemetry.trace import Link, SpanContext  # noqa: PLC0415

    match = _TRACEPARENT.fullmatch(traceparent)
    return [Link(SpanContext(int(match[1], 16), int(match[2], 16), is_remote=True))] if match else []


def _attributes(payment_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in attributes.items() if value is not None}
    return {f"allowance.{name}": value for name, value in {"payment_id": payment_id, **known}.items()}
