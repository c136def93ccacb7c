"""The pool of transactions that wait for a block, with the rules of a real node."""

import heapq
import itertools
from collections.abc import Callable, Iterator

from eth.abc import SignedTransactionAPI
from eth_typing import Address

from workshop.localnet.evm.errors import Rejected
from workshop.localnet.evm.fees import effective_tip, max_cost, max_fee, max_tip

_MAX_TRANSACTIONS = 20_000
_PRICE_BUMP_PERCENT = 10

AccountReader = Callable[[Address], tuple[int, int]]


class Pool:
    """Waiting transactions by sender and nonce. It is not thread-safe: the node locks around it.

    Like a real node's, it lives in memory only: after a restart whoever wants a transaction to
    happen sends it again.
    """

    def __init__(self) -> None:
        self._by_hash: dict[bytes, SignedTransactionAPI] = {}
        self._by_sender: dict[Address, dict[int, SignedTransactionAPI]] = {}

    def add(self, transaction: SignedTransactionAPI, read_account: AccountReader) -> None:
        """Take a decoded transaction in, or replace the one with the same sender and nonce.

        `read_account` returns the nonce and the balance (wei) of an address at the head.
        Raises `Rejected`: already known, nonce too low, underpriced, insufficient funds, full.
        """
        if transaction.hash in self._by_hash:
            raise Rejected("already known")
        nonce, balance_wei = read_account(transaction.sender)
        if transaction.nonce < nonce:
            raise Rejected(f"nonce too low: next nonce {nonce}, tx nonce {transaction.nonce}")
        mine = self._by_sender.get(transaction.sender, {})
        replaced = mine.get(transaction.nonce)
        self._check_funds(transaction, mine, replaced, balance_wei)
        if replaced is not None:
            if not _outbids(transaction, replaced):
                raise Rejected("replacement transaction underpriced")
            del self._by_hash[replaced.hash]
        elif len(self._by_hash) >= _MAX_TRANSACTIONS:
            raise Rejected("txpool is full")
        self._by_hash[transaction.hash] = transaction
        self._by_sender.setdefault(transaction.sender, mine)[transaction.nonce] = transaction

    @staticmethod
    def _check_funds(
        transaction: SignedTransactionAPI,
        mine: dict[int, SignedTransactionAPI],
        replaced: SignedTransactionAPI | None,
        balance_wei: int,
    ) -> None:
        cost = max_cost(transaction)
        queued = sum(map(max_cost, mine.values())) - (max_cost(replaced) if replaced else 0)
        if balance_wei < cost:
            raise Rejected(
                "insufficient funds for gas * price + value: "
                f"balance {balance_wei}, tx cost {cost}, overshot {cost - balance_wei}"
            )
        if balance_wei < queued + cost:
            raise Rejected(
                f"insufficient funds for gas * price + value: balance {balance_wei}, queued cost "
                f"{queued}, tx cost {cost}, overshot {queued + cost - balance_wei}"
            )

    def get(self, transaction_hash: bytes) -> SignedTransactionAPI | None:
        """Return a waiting transaction."""
        return self._by_hash.get(transaction_hash)

    def remove(self, transaction: SignedTransactionAPI) -> None:
        """Drop a transaction that was mined or has become impossible."""
        if self._by_hash.pop(transaction.hash, None) is None:
            return
        mine = self._by_sender[transaction.sender]
        del mine[transaction.nonce]
        if not mine:
            del self._by_sender[transaction.sender]

    def remove_used(self, sender: Address, nonce: int) -> None:
        """Drop all transactions of a sender below its nonce: another one took their place."""
        for used in [n for n in self._by_sender.get(sender, {}) if n < nonce]:
            self.remove(self._by_sender[sender][used])

    def next_nonce(self, sender: Address, nonce: int) -> int:
        """Return the first nonce at or after the account's that nothing waits with."""
        mine = self._by_sender.get(sender, {})
        return next(n for n in itertools.count(nonce) if n not in mine)

    def executable(self, read_account: AccountReader) -> dict[Address, list[SignedTransactionAPI]]:
        """Return, by sender, the waiting transactions without a gap before them, in order."""
        found = {}
        for sender, mine in self._by_sender.items():
            nonce, _ = read_account(sender)
            run = [mine[n] for n in range(nonce, self.next_nonce(sender, nonce))]
            if run:
                found[sender] = run
        return found


class Offers:
    """Hands executable transactions to a block: the best tip first, each sender in order."""

    def __init__(self, by_sender: dict[Address, list[SignedTransactionAPI]], base_fee_wei: int) -> None:
        self._base_fee_wei = base_fee_wei
        self._waiting = {sender: iter(run) for sender, run in by_sender.items()}
        self._heap: list[tuple[int, int, SignedTransactionAPI]] = []
        self._arrivals = itertools.count()
        for sender in self._waiting:
            self.offer_next(sender)

    def __iter__(self) -> Iterator[SignedTransactionAPI]:
        while self._heap:
            yield heapq.heappop(self._heap)[2]

    def offer_next(self, sender: Address) -> None:
        """Offer the sender's next transaction, once the one before is in the block."""
        transaction = next(self._waiting[sender], None)
        if transaction is None:
            return
        tip = effective_tip(transaction, self._base_fee_wei)
        if tip >= 0:
            heapq.heappush(self._heap, (-tip, next(self._arrivals), transaction))


def _outbids(new: SignedTransactionAPI, old: SignedTransactionAPI) -> bool:
    """Whether both fees are at least ten percent higher, as nodes ask for."""
    return all(
        fee(new) > fee(old) and fee(new) * 100 >= fee(old) * (100 + _PRICE_BUMP_PERCENT) for fee in (max_fee, max_tip)
    )
