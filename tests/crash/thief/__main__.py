"""`python -m tests.crash.thief`: somebody who has stolen the relayers' seed, and nothing else, goes on stealing.

A process of its own. It gets the seed (RELAYER_SEED), the addresses of the nodes, and what everybody sees: blocks, what
waits for one, what the nodes were sent. It knows nothing of the product: no settings, no database, none of the policy
signer's keys. It ends on SIGTERM, or with whoever started it.
"""

import argparse
import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from tests.crash.thief.evm import EvmThief
from tests.crash.thief.node import Node, Refused
from tests.crash.thief.solana import SolanaThief
from tests.crash.thief.tally import Tally

log = logging.getLogger("thief")

_SOLANA_LOOKS_EVERY_S = 0.1
# Blocks of the EVM chain come on whole seconds: what is seen right before one is too late for its owner.
_EVM_LOOKS_AT_S = (0.3, 0.6, 0.8, 0.93)
_ACTS_EVERY_S = (0.4, 1.6)
_WRITES_EVERY_S = 0.5


def main() -> None:
    """Steal until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if any(name.split(".")[0] in ("django", "payments", "policy", "ledger") for name in sys.modules):
        raise SystemExit("The thief knows the product.")
    parser = argparse.ArgumentParser(prog="python -m tests.crash.thief", description=__doc__)
    parser.add_argument("--evm", required=True, help="URL of a node")
    parser.add_argument("--solana", required=True, help="URL of a node")
    parser.add_argument("--shown", required=True, type=Path, help="file with what the Solana nodes were sent")
    parser.add_argument("--counts", required=True, type=Path, help="file to write the counts of each trick to")
    parser.add_argument("--seed", required=True, type=int, help="of chance")
    options = parser.parse_args()
    stopping = _stopping()
    seed, tally = bytes.fromhex(os.environ["RELAYER_SEED"].removeprefix("0x")), Tally(options.counts)
    evm = EvmThief(Node(options.evm), seed, random.Random(options.seed), tally)
    solana = SolanaThief(Node(options.solana), seed, options.shown, random.Random(options.seed + 1), tally)
    # Each by itself: a chain whose node is away does not keep the other one waiting.
    threads = [
        threading.Thread(target=_steal_on_evm, args=(evm, random.Random(options.seed + 2), stopping)),
        threading.Thread(target=_steal_on_solana, args=(solana, random.Random(options.seed + 3), stopping)),
    ]
    for thread in threads:
        thread.start()
    while not stopping.wait(_WRITES_EVERY_S) and all(thread.is_alive() for thread in threads):
        tally.write()
    is_alive = all(thread.is_alive() for thread in threads)
    stopping.set()
    for thread in threads:
        thread.join()
    tally.write()
    raise SystemExit(0 if is_alive else 1)


def _stopping() -> threading.Event:
    """Make what says when to stop: at a signal, or when the pipe that is the standard input ends."""
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)

    def wait_for_the_end() -> None:
        os.read(sys.stdin.fileno(), 1)
        stopping.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    return stopping


def _steal_on_evm(thief: EvmThief, chance: random.Random, stopping: threading.Event) -> None:
    acts_at = time.monotonic()
    while not stopping.wait(_until_next(_EVM_LOOKS_AT_S)):
        try:
            thief.look()
            if time.monotonic() > acts_at:
                acts_at = time.monotonic() + chance.uniform(*_ACTS_EVERY_S)
                thief.act()
        except Refused as refusal:
            log.info("EVM: %s", refusal)


def _steal_on_solana(thief: SolanaThief, chance: random.Random, stopping: threading.Event) -> None:
    acts_at = time.monotonic()
    while not stopping.wait(_SOLANA_LOOKS_EVERY_S):
        try:
            thief.look()
            if time.monotonic() > acts_at:
                acts_at = time.monotonic() + chance.uniform(*_ACTS_EVERY_S)
                thief.act()
        except Refused as refusal:
            log.info("Solana: %s", refusal)
    thief.leave()


def _until_next(fractions: tuple[float, ...]) -> float:
    now = time.time() % 1
    return min((one - now) % 1 or 1 for one in fractions)


if __name__ == "__main__":
    main()
