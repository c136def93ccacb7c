"""A server that stands for Sentry and for a collector of OpenTelemetry: it keeps what processes report."""

import gzip
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class ToldSpan:
    """A span as it arrived: `process` is the service's name, ids are bytes, times in nanoseconds."""

    process: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    began: int
    ended: int
    attributes: dict[str, str]
    links: list[tuple[bytes, bytes]]


class Collector:
    """`events` are Sentry's, `spans` OpenTelemetry's, `bodies` what arrived, `headers` those of each request."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.spans: list[ToldSpan] = []
        self.bodies: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self.bodies.append(("span", body))
            self.spans += _read_spans(body)
        else:
            self._take_envelope(body)

    def _take_envelope(self, body: bytes) -> None:
        lines = body.split(b"\n")
        for head, item in zip(lines[1::2], lines[2::2], strict=False):
            self.bodies.append(("report", item))
            if json.loads(head)["type"] == "event":
                self.events.append(json.loads(item))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _read_spans(body: bytes) -> list[ToldSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ToldSpan(
            process=_texts(of_process.resource.attributes)["service.name"],
            name=span.name,
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_id=span.parent_span_id,
            began=span.start_time_unix_nano,
            ended=span.end_time_unix_nano,
            attributes=_texts(span.attributes),
            links=[(link.trace_id, link.span_id) for link in span.links],
        )
        for of_process in request.resource_spans
        for scope in of_process.scope_spans
        for span in scope.spans
    ]


def _texts(attributes: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}
