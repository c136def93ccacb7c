"""What the operating system is told about a web process's sockets."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# The connections that the Procfile allows (`--backpressure`), and room for files, databases and pipes.
_FILES = 2048
UNREAD_DEADLINE_S = 30


def allow_files() -> None:
    """Let this process have so many open files, where the system permits: without them nobody can connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def drop_who_does_not_read() -> None:
    """Have the kernel close connections whose client takes nothing of what it asked for (Linux; nothing elsewhere).

    The server waits for ever to write. What is set on its listening socket holds for all that connect from then on, so
    this is called once it listens.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    for listening in _listening_sockets() if option else ():
        listening.setsockopt(socket.IPPROTO_TCP, option, UNREAD_DEADLINE_S * 1000)


def _listening_sockets() -> Iterator[socket.socket]:
    """Find them by their descriptors: the server has no way to ask for them."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(descriptor.name))) as found:
            is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
            if is_tcp and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                yield found
