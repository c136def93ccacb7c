"""Submit a transaction that is no payment, and wait until it is confirmed."""

import base64
import time
from collections.abc import Callable, Sequence
from typing import Any

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from chains.catalogue import Chain
from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import RpcError
from chains.solana.answers import (
    CONFIRMED,
    POSITION_CALL,
    Account,
    Status,
    accounts_calls,
    read_accounts,
    read_context,
    read_count,
    read_hash,
    read_position,
    read_statuses,
    read_units,
    statuses_calls,
)
from chains.solana.broadcasting import is_already_processed
from chains.solana.withdrawing import BUDGET
from foundation.kernel.errors import OperationRefused

_PAUSE_S = 1
# A blockhash is valid for 150 blocks, and 32 more are not final: a minute or two.
_LOOKS = 600


class Sender:
    """The account that signs and pays. `nodes` are of the right chain; `report` gets progress, never a secret."""

    def __init__(self, chain: Chain, nodes: Nodes, keypair: Keypair, report: Callable[[str], None]) -> None:
        self._chain, self._nodes, self._keypair, self._report = chain, nodes, keypair, report
        self.key = keypair.pubkey()

    def find_slot(self) -> int:
        """Read the newest slot."""
        return self._nodes.read([("getSlot", CONFIRMED)], lambda answers: read_count(answers[0]))

    def find_accounts(self, addresses: Sequence[Pubkey]) -> dict[Pubkey, Account | None]:
        """Read accounts; None: there is no such account."""
        named = {str(address): address for address in addresses}
        found = self._nodes.read(
            accounts_calls(list(named), CONFIRMED), lambda answers: read_accounts(answers, list(named))
        )
        return {named[name]: account for name, account in found.items()}

    def find_rent(self, length: int) -> int:
        """Read the minimum lamports of an account of `length` bytes."""
        return self._nodes.read([("getMinimumBalanceForRentExemption", length)], lambda answers: read_units(answers[0]))

    def send(self, instructions: Sequence[Instruction]) -> str:
        """Sign a transaction, submit it until it is confirmed, and check that it succeeded; returns its id.

        Its id is reported before it is submitted: from then on a block may include it, whatever is raised here.

        Raises:
            OperationRefused: nodes refuse it, it failed, it expired, or it is in no block yet.
            ChainUnavailable: no node answered before it was signed.
        """
        blockhash, last_height = self._nodes.read(
            [("getLatestBlockhash", CONFIRMED)], lambda answers: _lifetime(read_context(answers[0])[1])
        )
        message = Message.new_with_blockhash([*BUDGET, *instructions], self.key, blockhash)
        transaction = Transaction([self._keypair], message, blockhash)
        tx, raw = str(transaction.signatures[0]), bytes(transaction)
        self._report(f"Sending {tx} {self._chain.link_to(tx)}".rstrip())
        if refusal := self._submit(raw):
            raise OperationRefused(f"The nodes refuse the transaction: {refusal}")
        self._wait(tx, raw, last_height)
        return tx

    def _submit(self, raw: bytes) -> RpcError | None:
        """Submit a transaction; returns why it was refused. A node that does not answer may have accepted it."""
        options = {"encoding": "base64", "preflightCommitment": "confirmed", "maxRetries": 0}
        try:
            (answer,) = self._nodes.ask([("sendTransaction", base64.b64encode(raw).decode(), options)])
        except ChainUnavailable as error:
            self._report(str(error))
            return None
        return answer if isinstance(answer, RpcError) and not is_already_processed(answer) else None

    def _wait(self, tx: str, raw: bytes, last_height: int) -> None:
        for _ in range(_LOOKS):
            try:
                # The height is read first: once it is past, a missing transaction can never be included.
                height, status = self._nodes.read(
                    [POSITION_CALL, *statuses_calls([tx])], lambda answers: _read_state(answers, tx)
                )
                if status is not None and status.is_confirmed:
                    _check_success(tx, status)
                    return
                if status is None and height > last_height:
                    raise OperationRefused(f"{tx} has expired. Try again.")
                self._submit(raw)
            except ChainUnavailable as error:
                self._report(str(error))
            self._report("Waiting for a block ...")
            time.sleep(_PAUSE_S)
        raise OperationRefused(f"{tx} is in no block yet and may still get into one: look for it before another try.")


def _check_success(tx: str, status: Status) -> None:
    if status.error is not None:
        raise OperationRefused(f"{tx} failed in slot {status.slot}: {status.error}.")


def _read_state(answers: Sequence[Any], tx: str) -> tuple[int, Status | None]:
    """Read the final height and a transaction's status, as of one state, though several nodes may share an address."""
    final, height = read_position(answers[0])
    slot, status = read_statuses(answers[1:], [tx])[tx]
    if slot < final:
        raise ValueError("an older state")
    return height, status


def _lifetime(value: Any) -> tuple[Hash, int]:
    return Hash.from_string(read_hash(value["blockhash"])), read_count(value["lastValidBlockHeight"])
