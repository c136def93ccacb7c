"""Set limits of the operating system on a web process's files and connections."""

import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path

# The connections that the Procfile allows (`--backpressure`), and room for files, databases and pipes.
_FILES = 2048
UNREAD_DEADLINE_S = 30
# What the kernel buffers of an answer that the client does not read; by default that may be some megabytes.
_UNREAD_BYTES = 128 * 1024


def raise_file_limit() -> None:
    """Raise this process's limit of open files, where the system permits: each connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def drop_unread_connections(port: int) -> None:
    """Have the kernel close connections whose client does not read, and buffer little for them.

    The server waits for ever to write, and gives no access to its sockets. An option of the listening socket applies to
    all later connections, so this is called once it listens. On Linux; elsewhere it does nothing.
    """
    if sys.platform != "linux":
        return
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # not a socket, or closed meanwhile
            found = socket.socket(fileno=int(descriptor.name))
            try:
                _limit(found, port)
            finally:
                found.detach()


def _limit(found: socket.socket, port: int) -> None:
    is_tcp = found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6)
    if is_tcp and found.getsockname()[1] == port:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_DEADLINE_S * 1000)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
