"""Receivers of many payees in one process, which cost little: `python -m tests.benchmarks.webhook_receiver`.

Prints its port. The URL of payee 7 is `/7`; after `/hang/100` the first hundred accept and never answer.
"""

import asyncio

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Connection(asyncio.Protocol):
    hanging = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        path = head.split(b" ", 2)[1].decode()
        if path.startswith("/hang/"):
            _Connection.hanging = int(path.removeprefix("/hang/"))
        elif int(path.removeprefix("/")) < _Connection.hanging:
            return
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(_ANSWER)
        self._transport.close()


def _length(head: bytes) -> int:
    lines = (line.lower() for line in head.split(b"\r\n"))
    return next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
