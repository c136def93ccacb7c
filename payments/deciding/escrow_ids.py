"""What an idempotency key is called on a chain. Pure.

The escrow of an EVM chain pays each id once. Its ids stand for idempotency keys, so that it does not pay a key twice
even where our own memory was set back. The salt is the installation's: nobody who reads the chain can try out names of
agents and keys. `sql/lock_and_read.sql` computes the same on the money path; a test compares.
"""

import hashlib


def key_hash(salt: bytes, agent_id: str, idempotency_key: str) -> bytes:
    """Hash an agent's idempotency key (32 bytes); `salt` is of 32 bytes, too."""
    return _sha256(salt + _sha256(agent_id.encode()) + _sha256(idempotency_key.encode()))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
