"""Claim and stop the local servers: the last process with a claim stops them when it ends."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize

from workshop.localnet import evm_server, postgres, redis_server, solana_server
from workshop.localnet.folder import Folder, locked
from workshop.localnet.lease import Lease

SERVERS = (postgres, redis_server, evm_server, solana_server)
_leases: dict[Folder, Lease] = {}


@contextmanager
def starting(folder: Folder) -> Iterator[None]:
    """Start servers while no other process starts or stops any, and claim them until this process ends.

    If it is then the last that has a claim, it stops them.
    """
    with _locked(folder):
        _claim(folder)
        yield


def stop_unused(folder: Folder) -> bool:
    """Stop the servers unless a process has a claim on them. Return whether they are stopped."""
    with _locked(folder):
        lease = Lease(folder.path / "lease")
        try:
            return _stop_if_last(folder, lease)
        finally:
            lease.release()


@contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    with locked(folder.path / "start.lock"):
        yield


def _claim(folder: Folder) -> None:
    lease = _leases.get(folder)
    if lease is not None and lease.holder == os.getpid():
        return
    # A forked child takes a claim of its own and leaves its parent's alone.
    _leases[folder] = Lease(folder.path / "lease")
    atexit.register(_leave, folder, os.getpid())
    # Processes of multiprocessing end without atexit.
    Finalize(None, _leave, args=(folder, os.getpid()), exitpriority=0)


def _leave(folder: Folder, pid: int) -> None:
    if pid != os.getpid() or folder not in _leases or not folder.path.exists():
        return
    with _locked(folder):
        lease = _leases.pop(folder)
        _stop_if_last(folder, lease)
        lease.release()


def _stop_if_last(folder: Folder, lease: Lease) -> bool:
    if not lease.is_last():
        return False
    for server in SERVERS:
        server.daemon(folder).stop()
    return True
