"""How much a request line and headers may hold, as the contract says. Over real sockets."""

import pytest

from tests.support.wire import ask, connect, read_answer

pytestmark = pytest.mark.usefixtures("committed")
MOST = 32 * 1024


def padded(start: bytes, size: int, by: str) -> bytes:
    """Make a head of so many bytes in all, by a long header, by many headers, or by a long address."""
    if by == "address":
        first, _, rest = start.partition(b" HTTP/1.1")
        return first + b"?" + b"x" * (size - len(start) - 3) + b" HTTP/1.1" + rest + b"\r\n"
    count = 1 if by == "header" else 90
    room, more = divmod(size - len(start) - 2, count)
    lines = [b"A%03d: " % number + b"x" * (room - 8 + (more if not number else 0)) for number in range(count)]
    return start + b"\r\n".join(lines) + b"\r\n\r\n"


@pytest.mark.parametrize("by", ["header", "headers", "address"])
@pytest.mark.parametrize("pieces", [1, 5])
def test_headers_of_32_kib_with_the_address_are_read_and_one_byte_more_is_not(desk, by, pieces):
    for size, status in ((MOST, 200), (MOST + 1, 431), (40_000, 431)):
        head = padded(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", size, by)
        assert len(head) == size
        with connect(desk.url) as connection:
            for start in range(0, size, step := -(-size // pieces)):
                connection.sendall(head[start : start + step])
            answer = read_answer(connection)
        assert answer.status == status, (size, by)
        if status != 200:
            assert (answer.body, answer.headers["connection"]) == (b"", "close")


def test_a_hundred_headers_are_read_and_one_more_is_not(desk):
    for count, status in ((99, 200), (100, 431)):
        lines = b"".join(b"A%d: b\r\n" % number for number in range(count))
        answer = ask(desk.url, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
        assert answer.status == status
        assert status == 200 or (answer.body, answer.headers["connection"]) == (b"", "close")


def test_nothing_is_paid_with_headers_that_are_too_large_and_the_connection_closes(desk):
    with connect(desk.url) as connection:
        connection.sendall(desk.head(desk.length, f"A: {'x' * MOST}") + desk.body + desk.head(desk.length) + desk.body)
        assert read_answer(connection).status == 431
        assert connection.recv(1) == b""
    assert desk.paid == 0
