"""The hashes of blocks: they follow from the height and a secret of this chain, so empty blocks are stored nowhere."""

import secrets
from bisect import bisect_right
from hashlib import sha256

from solders.hash import Hash

from workshop.localnet.solana.database import Database

_HEIGHT_BYTES = 8


class Blockhashes:
    """Hash by height and height by hash. Blocks that replace others get another secret, so other hashes."""

    def __init__(self, database: Database) -> None:
        self._salts: list[tuple[int, bytes]] = database.rows("SELECT first_height, salt FROM salts ORDER BY 1")
        self._heights: dict[Hash, int] = {}
        self._highest = -1

    def of(self, height: int) -> Hash:
        """Return the hash of a block."""
        _, salt = self._salts[bisect_right(self._salts, height, key=lambda one: one[0]) - 1]
        return Hash.from_bytes(sha256(salt + height.to_bytes(_HEIGHT_BYTES)).digest())

    def height_of(self, blockhash: Hash, *, lowest: int, highest: int) -> int | None:
        """Return the height of a block; None if none of the newest ones has the hash."""
        if self._highest != highest:
            self._heights = {self.of(height): height for height in range(max(0, lowest), highest + 1)}
            self._highest = highest
        return self._heights.get(blockhash)

    def replaced_from(self, height: int, salt: bytes) -> None:
        """Give the blocks from a height on other hashes. The caller writes it to the database."""
        self._salts = [one for one in self._salts if one[0] < height]
        self._salts.append((height, salt))
        self._highest = -1


def new_salt() -> bytes:
    """Return a secret for hashes."""
    return secrets.token_bytes(32)
