"""The id of an idempotency key on a chain. Pure.

The escrow of an EVM chain pays each id once. Its ids are hashes of idempotency keys, so that it cannot pay a key twice
even if our database was restored from an old backup. The salt is a secret of the installation: somebody who reads the
chain cannot test guesses of agents and keys. `sql/lock_and_read.sql` computes the same on the money path; a test
compares.
"""

import hashlib


def key_hash(salt: bytes, agent_id: str, idempotency_key: str) -> bytes:
    """Hash an agent's idempotency key; returns 32 bytes, like `salt`."""
    return _sha256(salt + _sha256(agent_id.encode()) + _sha256(idempotency_key.encode()))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
