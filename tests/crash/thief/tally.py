"""What the thief has done, by trick: written to a file that whoever started it reads. Pure but for that file."""

import json
import os
from collections import Counter
from pathlib import Path

# EVM.
FRONT_RUN = "EVM: a waiting payment submitted from another relayer first"
NONCE_TAKEN = "EVM: the nonce of a waiting payment used up"
PAY_REPLAYED = "EVM: an old payment submitted again"
VOID_REPLAYED = "EVM: an old void submitted again"
WITHHELD = "EVM: a payment withheld"
VOID_WITHHELD = "EVM: the void of a withheld payment withheld, too"
BEFORE_DEADLINE = "EVM: a withheld payment submitted shortly before its deadline"
AFTER_DEADLINE = "EVM: a withheld payment submitted shortly after its deadline"
LONG_AFTER = "EVM: a withheld payment submitted when it was void, or long after its deadline"
# Solana.
SIGNED_OTHERWISE = "Solana: a co-signed payment signed otherwise, under another id"
LANDED_OTHERWISE = "Solana: a payment landed under the thief's id"
REPLAYED = "Solana: a payment that had landed submitted again, under an old id or a new one"
FAILED_REPLAYED = "Solana: a payment that had failed submitted again"
DRAINED = "Solana: the relayer's SOL taken for some seconds"
ACCOUNT_TAKEN = "Solana: a payment's temporary account made before it"

TRICKS = (
    FRONT_RUN, NONCE_TAKEN, PAY_REPLAYED, VOID_REPLAYED, WITHHELD, VOID_WITHHELD, BEFORE_DEADLINE, AFTER_DEADLINE,
    LONG_AFTER, SIGNED_OTHERWISE, LANDED_OTHERWISE, REPLAYED, FAILED_REPLAYED, DRAINED, ACCOUNT_TAKEN,
)  # fmt: skip


class Tally:
    """Counts per trick, kept in a JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: Counter[str] = Counter(dict.fromkeys(TRICKS, 0))

    def count(self, trick: str, times: int = 1) -> None:
        self._counts[trick] += times

    def write(self) -> None:
        """Write all at once: a reader never sees half of it."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._counts))
        os.replace(new, self._path)  # noqa: PTH105 - says what it does


def read_tally(path: Path) -> dict[str, int]:
    """Read what was written so far."""
    return dict(json.loads(path.read_text())) if path.exists() else dict.fromkeys(TRICKS, 0)
