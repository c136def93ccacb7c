"""The chain itself: genesis, the head, its state, and how a block is made and kept."""

import secrets
import time
from collections.abc import Iterable
from typing import NamedTuple, cast

from eth.abc import BlockHeaderAPI, ReceiptAPI, SignedTransactionAPI, StateAPI
from eth.chains.base import Chain
from eth.constants import ZERO_ADDRESS
from eth.db.schema import SchemaV1
from eth.db.trie import make_trie_root_and_nodes
from eth.exceptions import CanonicalHeadNotFound
from eth.vm.base import VM
from eth.vm.forks.prague import PragueVM
from eth_typing import Address, BlockNumber
from eth_utils.exceptions import ValidationError

from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.evm.database import Database
from workshop.localnet.evm.encoding import block_rows
from workshop.localnet.evm.pool import Offers
from workshop.localnet.evm.transactions import BLOCK_GAS_LIMIT

FAUCET_WEI = 10**9 * 10**18
# The rest of a slot of one second is left to requests.
_BUILD_S = 0.75


class PragueChain(Chain):
    """py-evm's chain with the rules of Ethereum since May 2025."""

    chain_id = CHAIN_ID
    vm_configuration = ((BlockNumber(0), PragueVM),)


class Made(NamedTuple):
    """A block that was added to the chain, and the transactions that turned out to be impossible."""

    header: BlockHeaderAPI
    included: list[SignedTransactionAPI]
    impossible: list[SignedTransactionAPI]


class PoisonedError(Exception):
    """A transaction made py-evm fail in a way that no transaction should."""

    def __init__(self, transaction: SignedTransactionAPI) -> None:
        super().__init__(transaction)
        self.transaction = transaction


class LocalChain:
    """One chain in one database. Only one thread makes blocks; any thread reads."""

    def __init__(self, database: Database, *, faucet: Address, now_s: int) -> None:
        """Open the chain, or begin it with all ether in `faucet`."""
        self.database = database
        try:
            self._chain = PragueChain(database)
            self.head = self._chain.get_canonical_head()
        except CanonicalHeadNotFound:
            self.head = self._begin(faucet, now_s)

    def _begin(self, faucet: Address, now_s: int) -> BlockHeaderAPI:
        account = {"balance": FAUCET_WEI, "nonce": 0, "code": b"", "storage": {}}
        genesis = {"gas_limit": BLOCK_GAS_LIMIT, "timestamp": now_s, "difficulty": 0}
        self._chain = cast(
            "PragueChain",
            PragueChain.from_genesis(self.database, genesis, {faucet: account}),  # type: ignore[arg-type,dict-item]
        )
        head = self._chain.get_canonical_head()
        self.database.commit(block_rows(head, [], []))
        return head

    def header(self, number: int) -> BlockHeaderAPI:
        """Return the header of a block that exists."""
        return self._chain.get_canonical_block_header_by_number(BlockNumber(number))

    def state(self, header: BlockHeaderAPI, *, base_fee_wei: int | None = None) -> StateAPI:
        """Return a fresh state after a block, as code in that block would see it.

        It belongs to its caller: what is changed in it is never written.
        """
        if base_fee_wei is not None:
            header = header.copy(base_fee_per_gas=base_fee_wei)
        return self._chain.get_vm(header).state

    def next_header(self, timestamp_s: int | None = None, *, parent: BlockHeaderAPI | None = None) -> BlockHeaderAPI:
        """Return the header that the block after the head, or another one, starts from: number, base fee, time."""
        parent = parent or self.head
        return self._chain.create_header_from_parent(
            parent,
            timestamp=max(timestamp_s or 0, parent.timestamp + 1),
            gas_limit=BLOCK_GAS_LIMIT,
            coinbase=ZERO_ADDRESS,
            mix_hash=secrets.token_bytes(32),
        )

    def make_block(self, offers: Offers, *, timestamp_s: int) -> Made:
        """Execute what is offered until time or gas is used up, and add the block durably."""
        start = self.next_header(timestamp_s)
        vm = cast("VM", self._chain.get_vm(start))
        try:
            header, included, receipts, impossible = _execute(vm, start, offers)
            header = _sealed(vm, header, included, receipts)
            self._chain.chaindb.persist_header(header)
            self.database.commit(block_rows(header, included, receipts))
        except BaseException:
            self.database.discard()
            raise
        self.head = header
        return Made(header, included, impossible)

    def replace_blocks(self, depth: int) -> None:
        """Put as many other blocks, without transactions, in the place of the newest ones; durably, all or none."""
        first = self.head.block_number - depth + 1
        replaced = [self.header(number) for number in range(first, first + depth)]
        head, rows = self.header(first - 1), []
        try:
            # py-evm only leaves a chain for a longer one: it is taken back first.
            self.database[SchemaV1.make_canonical_head_hash_lookup_key()] = head.hash
            for old in replaced:
                start = self.next_header(old.timestamp, parent=head)
                head = _sealed(cast("VM", self._chain.get_vm(start)), start, [], [])
                self._chain.chaindb.persist_header(head)
                rows.append(block_rows(head, [], []))
            self.database.commit(*rows)
        except BaseException:
            self.database.discard()
            raise
        self.head = head


def _execute(
    vm: VM, header: BlockHeaderAPI, offers: Offers
) -> tuple[BlockHeaderAPI, list[SignedTransactionAPI], list[ReceiptAPI], list[SignedTransactionAPI]]:
    included: list[SignedTransactionAPI] = []
    receipts: list[ReceiptAPI] = []
    impossible: list[SignedTransactionAPI] = []
    end = time.monotonic() + _BUILD_S
    for transaction in offers:
        if time.monotonic() > end:
            break
        if header.gas_used + transaction.gas > header.gas_limit:
            continue
        try:
            receipt, _ = vm.apply_transaction(header, transaction)
        except ValidationError:
            impossible.append(transaction)
            continue
        except Exception as error:
            raise PoisonedError(transaction) from error
        header = vm.add_receipt_to_header(header, receipt)
        included.append(transaction)
        receipts.append(receipt)
        offers.offer_next(transaction.sender)
    return header, included, receipts, impossible


def _sealed(
    vm: VM,
    header: BlockHeaderAPI,
    transactions: Iterable[SignedTransactionAPI],
    receipts: Iterable[ReceiptAPI],
) -> BlockHeaderAPI:
    """Write the state and return the header with its roots.

    The tries of transactions and receipts are not kept: queries are answered from the tables.
    """
    transaction_root, _ = make_trie_root_and_nodes(tuple(transactions))
    receipt_root, _ = make_trie_root_and_nodes(tuple(receipts))
    vm.state.persist()
    return header.copy(
        state_root=vm.state.state_root,
        transaction_root=transaction_root,
        receipt_root=receipt_root,
    )
