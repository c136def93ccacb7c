"""Servers behind TLS, with certificates of an authority that only a test knows."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme

HOST = "127.0.0.1"
_PIECE = 65_536
_SSL_REQUEST, _GSSENC_REQUEST = ((code).to_bytes(4, "big") for code in (80877103, 80877104))


class Authority:
    """An authority, and a certificate of it for this machine or for another name."""

    def __init__(self, folder: Path, name: str = HOST) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert(name)
        self.file, self.key, self.chain = (folder / f"{part}.pem" for part in ("ca", "key", "chain"))
        authority.cert_pem.write_to_path(self.file)
        certificate.private_key_pem.write_to_path(self.key)
        certificate.cert_chain_pems[0].write_to_path(self.chain)
        self.key.chmod(0o600)

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


@contextmanager
def in_front_of(server: int | Path, authority: Authority | None) -> Iterator[int]:
    """Take TLS off for a server on this machine, by its port, as a managed one does by itself; yields the port.

    PostgreSQL, by its socket, is first asked for TLS; without an authority it says that it has none.
    """
    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=_serve, args=(listener, server, authority), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, server: int | Path, authority: Authority | None) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_pass_on, args=(client, server, authority), daemon=True).start()


def _pass_on(client: socket.socket, server: int | Path, authority: Authority | None) -> None:
    with suppress(OSError), client, _connect(server) as behind:  # also what a handshake fails with
        is_asked = not isinstance(server, Path) or _is_asked_for_tls(client, has_tls=authority is not None)
        front = authority.context.wrap_socket(client, server_side=True) if authority and is_asked else client
        with front:
            back = threading.Thread(target=_copy, args=(behind, front), daemon=True)
            back.start()
            _copy(front, behind)
            back.join()


def _connect(server: int | Path) -> socket.socket:
    if isinstance(server, int):
        return socket.create_connection((HOST, server))
    behind = socket.socket(socket.AF_UNIX)
    behind.connect(str(server))
    return behind


def _is_asked_for_tls(client: socket.socket, *, has_tls: bool) -> bool:
    """Answer what a client of PostgreSQL asks before it begins. Source: its manual, "Message Formats", SSLRequest."""
    while (request := client.recv(8, socket.MSG_PEEK | socket.MSG_WAITALL)[4:]) in (_SSL_REQUEST, _GSSENC_REQUEST):
        client.recv(8)
        is_granted = has_tls and request == _SSL_REQUEST
        client.sendall(b"S" if is_granted else b"N")
        if is_granted:
            return True
    return False


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
