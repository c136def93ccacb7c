"""What the operating system is told about a web process's sockets."""

import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path

# The connections that the Procfile allows (`--backpressure`), and room for files, databases and pipes.
_FILES = 2048
UNREAD_DEADLINE_S = 30
# What the kernel keeps of an answer that nobody takes; by itself it would keep some megabytes.
_UNREAD_BYTES = 128 * 1024


def allow_files() -> None:
    """Let this process have so many open files, where the system permits: without them nobody can connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def drop_who_does_not_read(port: int) -> None:
    """Have the kernel close connections whose client takes nothing of what it asked for, and keep little for them.

    The server waits for ever to write, and offers no way to its sockets. What is set on the one that listens holds for
    all that connect from then on, so this is called once it listens. On Linux; elsewhere it does nothing.
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
