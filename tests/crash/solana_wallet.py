"""Who deposits on the Solana chain: the deployer, which has plenty of everything."""

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.instructions import sync_native, transfer_checked
from spl.token.models import SyncNativeParams, TransferCheckedParams

from foundation.kernel.assets import Asset
from tests.crash.solana_localnet import BLOCKHASH, SEND, STATUSES, SolanaLocalnet
from workshop.localnet.errors import LocalnetError

_UNITS = 100_000
# Nodes tell of no more at once.
_MOST_STATUSES = 256


@dataclass(slots=True)
class _Wanted:
    """A deposit; it is signed again when its transaction has expired, which no block can have then."""

    instructions: list[Instruction]
    tx: str = ""
    raw: bytes = b""
    last_height: int = 0


class SolanaWallet:
    """A deposit is what changes the balance of the escrow's account, with a memo that names the agent."""

    def __init__(self, localnet: SolanaLocalnet, key: str) -> None:
        self._localnet = localnet
        self._keys = Keypair.from_seed(bytes.fromhex(key.removeprefix("0x")))
        self._open: list[_Wanted] = []
        self._numbers = itertools.count(_UNITS)

    def deposit(self, agent: str, asset: Asset, units: int) -> None:
        memo = Instruction(MEMO_PROGRAM_ID, agent.encode(), [])
        # Without a number of its own a deposit like another would be the same transaction.
        limit = set_compute_unit_limit(next(self._numbers))
        self._open.append(_Wanted([limit, *self._transfer(asset, units), memo]))
        self.insist()

    def insist(self) -> bool:
        try:
            # Read before the statuses: what is missing above it then can never land.
            height = self._localnet.ask("getBlockHeight", {"commitment": "finalized"})
            first = self._open[:_MOST_STATUSES]
            for one, status in zip(first, self._statuses(first), strict=True):
                self._see_to(one, status, height)
        except (OSError, LocalnetError):
            return False
        return not self._open

    def _see_to(self, one: _Wanted, status: dict[str, Any] | None, height: int) -> None:
        if status is None:
            if one.last_height < height:
                self._sign(one)
            self._offer(one)
        elif status["confirmationStatus"] == "finalized":
            if status["err"] is not None:
                raise RuntimeError(f"The deposit {one.tx} failed: {status['err']}")
            self._open.remove(one)

    def _statuses(self, wanted: Sequence[_Wanted]) -> list[dict[str, Any] | None]:
        """Look for what was signed; None: nowhere to be seen."""
        signed = [one.tx for one in wanted if one.tx]
        answer = self._localnet.ask(STATUSES, signed, {"searchTransactionHistory": True})
        found = dict(zip(signed, answer["value"], strict=True))
        return [found.get(one.tx) for one in wanted]

    def _sign(self, one: _Wanted) -> None:
        # Of a final block, so that no reorganisation takes it away.
        newest = self._localnet.ask(BLOCKHASH, {"commitment": "finalized"})["value"]
        message = Message.new_with_blockhash(
            one.instructions, self._keys.pubkey(), Hash.from_string(newest["blockhash"])
        )
        transaction = Transaction([self._keys], message, message.recent_blockhash)
        one.tx, one.raw = str(transaction.signatures[0]), bytes(transaction)
        one.last_height = newest["lastValidBlockHeight"]

    def _offer(self, one: _Wanted) -> None:
        options = {"encoding": "base64", "skipPreflight": True}
        self._localnet.ask(SEND, base64.b64encode(one.raw).decode(), options)

    def _transfer(self, asset: Asset, units: int) -> list[Instruction]:
        vault, owner = self._localnet.vault(asset), self._keys.pubkey()
        mint, program = self._localnet.mint(asset)
        if asset is Asset.SOL:
            lamports = TransferParams(from_pubkey=owner, to_pubkey=vault, lamports=units)
            return [transfer(lamports), sync_native(SyncNativeParams(program_id=program, account=vault))]
        tokens = TransferCheckedParams(
            program_id=program,
            source=self._localnet.account_of(owner, asset),
            mint=mint,
            dest=vault,
            owner=owner,
            amount=units,
            decimals=asset.decimals,
        )
        return [transfer_checked(tokens)]
