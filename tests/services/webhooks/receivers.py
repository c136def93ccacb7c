"""A payee's receiver on this machine: a real HTTP or HTTPS server in threads, whose behaviour is a script.

with Receiver(answers(500), answers(200)) as receiver: ...  # http; the last behaviour repeats
with Receiver(hangs(), tls=Authority().server("shop.example")) as receiver: ...
receiver.url("/hook", host="shop.example"), receiver.wait_for(2), receiver.requests
"""

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from tests.services.webhooks.behaviours import Behaviour, Exchange, Request, answers

_HEAD_END = b"\r\n\r\n"


class Receiver:
    """Listens while it is entered. Each request gets the next behaviour; the last one repeats."""

    def __init__(self, *behaviours: Behaviour, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> None:
        self.requests: list[Request] = []
        self._arrived = threading.Condition()
        self._behaviours = list(behaviours) or [answers(200)]
        self._tls = tls
        self._address = f"[{address}]" if ":" in address else address
        self._server = _Server(address, self._serve)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/hook", host: str | None = None) -> str:
        """Write the address of this receiver, under a name that is certified or looked up if one is given."""
        scheme = "http" if self._tls is None else "https"
        host = host or self._address
        return f"{scheme}://{host}:{self.port}{path}"

    def behave(self, *behaviours: Behaviour) -> None:
        """Behave like this from the next request on."""
        with self._arrived:
            self._behaviours = list(behaviours)

    def certify(self, tls: ssl.SSLContext) -> None:
        """Show another certificate from the next connection on."""
        self._tls = tls

    def wait_for(self, count: int, patience_s: float = 60) -> list[Request]:
        """Wait until so many requests have arrived; returns all."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, patience_s), (
                f"{len(self.requests)} of {count} requests arrived."
            )
            return list(self.requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()  # waits for the threads of connections
        self._thread.join()

    def _serve(self, connection: socket.socket) -> None:
        server_name = None
        with suppress(OSError):  # the client left, or TLS failed; ssl.SSLError is an OSError
            if self._tls:
                connection, server_name = _secure(connection, self._tls)
            with connection:
                request = _read_request(connection, server_name)
                if request:
                    self._note(request)(Exchange(request, connection))

    def _note(self, request: Request) -> Behaviour:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
            return self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]


class _Server(socketserver.ThreadingTCPServer):
    request_queue_size = 512
    block_on_close = True

    def __init__(self, address: str, serve: Callable[[socket.socket], None]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._serve = serve
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closing = False
        super().__init__((address, 0), socketserver.BaseRequestHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        # A duplicate stays valid when TLS takes the socket over, and when the behaviour closes it.
        handle = request.dup()
        with self._lock:
            self._open.add(handle)
            if self._is_closing:
                self._shut(handle)
        try:
            self._serve(request)
        finally:
            with self._lock:
                self._open.remove(handle)
            handle.close()

    def hang_up(self) -> None:
        """Close what is still open: behaviours that wait for the client end."""
        with self._lock:
            self._is_closing = True
            for handle in self._open:
                self._shut(handle)

    @staticmethod
    def _shut(handle: socket.socket) -> None:
        with suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        raise  # noqa: PLE0704 - called while it is handled; pytest reports what ends a thread


def _secure(connection: socket.socket, tls: ssl.SSLContext) -> tuple[ssl.SSLSocket, str | None]:
    secured = tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
    except OSError:
        secured.close()
        raise
    return secured, getattr(secured, "asked_for", None)


def _read_request(connection: socket.socket, server_name: str | None) -> Request | None:
    data = b""
    while _HEAD_END not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(_HEAD_END)
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = tuple((name, value.strip()) for name, _, value in (one.partition(":") for one in lines))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    while len(body) < length:
        part = connection.recv(65536)
        if not part:
            return None
        body += part
    return Request(line, headers, body, connection.getpeername()[0], server_name)


# --- What is at the other end of names and ports ----------------------------------------------------------------------
async def at_loopback(host: str, port: int) -> list[str]:
    """Find every name on this machine: the `lookup` of a courier."""
    return ["127.0.0.1"]


@contextmanager
def refused_port() -> Iterator[int]:
    """Hold a port on which every connection is refused: nobody listens, and nobody else gets it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def silent_port() -> Iterator[int]:
    """Hold a port on which connections are made, and nothing more happens: not even TLS begins."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]
