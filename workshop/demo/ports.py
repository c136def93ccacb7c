"""The port of the web server: chosen, and kept from others until the server listens on it. And one for a payee."""

import secrets
import socket

HOST = "127.0.0.1"
DEFAULT = 8000
_ATTEMPTS = 100
# The system gives out higher ports as any free port: no program gets one of these by chance.
_QUIET = range(20_000, 32_000)


class PortTakenError(Exception):
    """Say in a sentence which port cannot be had."""


def reserve(port: int | None) -> socket.socket:
    """Reserve the wanted port, or the first free one from 8000 on. Hold the socket as long as the port is needed.

    Raises:
        PortTakenError: somebody uses the wanted port.
    """
    wanted = range(DEFAULT, DEFAULT + _ATTEMPTS) if port is None else [port]
    for one in wanted:
        if _is_free(one):
            return _hold(one)
    if port is None:
        raise PortTakenError(f"No port from {wanted[0]} to {wanted[-1]} is free. Choose one with --port.")
    raise PortTakenError(f"Port {port} is taken, or not yours to use. Choose another one with --port.")


def pick() -> int:
    """Pick a free port at random: it is not kept, but nobody is likely to take it.

    Raises:
        PortTakenError: there is none.
    """
    for port in secrets.SystemRandom().sample(_QUIET, _ATTEMPTS):
        if _is_free(port):
            return port
    raise PortTakenError(f"Of {_ATTEMPTS} ports from {_QUIET[0]} to {_QUIET[-1]} none is free.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections that linger after a server has ended do not take the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _hold(port: int) -> socket.socket:
    """Bind without listening: the web server may join in, since it sets SO_REUSEPORT as well; others see it taken."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reservation.bind((HOST, port))
    return reservation
