"""What a receiver may do with a request, as scripts for `Receiver`."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """What arrived: `headers` as they were written and in their order, `server_name` as TLS named it (SNI)."""

    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    peer: str
    server_name: str | None

    def header(self, name: str) -> str | None:
        """Find a header that may be there once."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times."
        return values[0] if values else None

    @property
    def path(self) -> str:
        return self.line.split()[1]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the connection that its answer goes to. Behaviours may send what they like."""

    request: Request
    connection: socket.socket

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def wait_for_hangup(self) -> None:
        """Wait until the client, or the end of the test, closes the connection."""
        while self.connection.recv(4096):
            pass

    def is_over_after(self, wait_s: float) -> bool:
        """Wait for so long, less if the client, or the end of the test, closes the connection."""
        self.connection.settimeout(wait_s)
        try:
            return not self.connection.recv(4096)
        except TimeoutError:
            return False
        finally:
            self.connection.settimeout(None)


Behaviour = Callable[[Exchange], None]


# --- Behaviours -------------------------------------------------------------------------------------------------------
def answers(status: int, body: bytes = b"", *headers: tuple[str, str]) -> Behaviour:
    """Answer at once, as HTTP wants it."""
    lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers)]
    return sends("\r\n".join(lines).encode() + _HEAD_END + body)


def sends(data: bytes) -> Behaviour:
    """Send these bytes and close the connection."""
    return lambda exchange: exchange.send(data)


def hangs(after: bytes = b"") -> Behaviour:
    """Send these bytes, then nothing, until the client gives up."""

    def behave(exchange: Exchange) -> None:
        exchange.send(after)
        exchange.wait_for_hangup()

    return behave


def drips(head: bytes, drop: bytes, every_s: float = 0.05) -> Behaviour:
    """Send the head, then a drop now and then, until the client gives up."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head)
        while not exchange.is_over_after(every_s):
            exchange.send(drop)

    return behave


def pours(head: bytes, wave: bytes) -> Behaviour:
    """Send the head, then waves without end, until the client gives up."""

    def behave(exchange: Exchange) -> None:
        exchange.send(head)
        while True:
            exchange.send(wave)

    return behave


def resets(exchange: Exchange) -> None:
    """Break the connection off with a TCP reset."""
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.connection.close()
