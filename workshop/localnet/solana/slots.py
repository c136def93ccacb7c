"""Convert between slots, block heights and times. Pure.

Nothing is stored for an empty slot, so none costs anything. As on a public chain some slots are skipped, so that
a client that takes a slot for a block height fails.
"""

SLOT_MS = 400
SLOTS_PER_EPOCH = 432_000
# The last slot of each cycle has no block.
_CYCLE_SLOTS = 16
_CYCLE_BLOCKS = _CYCLE_SLOTS - 1


def slot_of(height: int) -> int:
    """Return the slot of the block with a height."""
    return height + height // _CYCLE_BLOCKS


def is_skipped(slot: int) -> bool:
    """Whether a slot has no block."""
    return slot % _CYCLE_SLOTS == _CYCLE_BLOCKS


def last_height(slot: int) -> int:
    """Return the height of the newest block at or before a slot."""
    return slot - (slot + 1) // _CYCLE_SLOTS
