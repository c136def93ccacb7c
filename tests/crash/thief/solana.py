"""The thief on Solana: it has the relayer's key, and is shown by the nodes what is sent to them.

A message that the policy signer co-signed can be signed by the relayer's key in many ways, each of which makes another
id. That is all that can be done with it: the message itself stays as it was co-signed.
"""

import base64
import json
import random
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import AllocateWithSeedParams, TransferParams, allocate_with_seed, transfer
from solders.transaction import Transaction, VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import ACCOUNT_LEN, TOKEN_PROGRAM_ID

from tests.crash.thief import tally
from tests.crash.thief.node import Node, Refused
from tests.crash.thief.tally import Tally
from tests.support.ed25519 import sign_otherwise

_SIGNATURES = 2
_MOST_KEPT = 1_000
# Nodes tell of no more at once.
_MOST_STATUSES = 200
_FORGE, _TAKE_ACCOUNT = 0.6, 0.04
_STATUSES_EVERY_S = 2
_DRAIN_EVERY_S, _DRAINED_S, _GIVE_BACK_S = 40, 2, 1
# Enough for the fees of some payments, not for the rent that they lend.
_LEFT_LAMPORTS, _FEE_LAMPORTS = 1_500_000, 5_000


@dataclass(slots=True)
class Seen:
    """A payment as it was sent, what was made of it, and what became of that, by id (None: nothing)."""

    sent: VersionedTransaction
    ids: dict[str, Any] = field(default_factory=dict)
    forged: set[str] = field(default_factory=set)


class SolanaThief:
    """Signs what it is shown otherwise, and sends all of it again and again. `shown`: a line of JSON for each."""

    def __init__(self, node: Node, seed: bytes, shown: Path, chance: random.Random, count: Tally) -> None:
        self._node, self._shown, self._chance, self._tally = node, shown, chance, count
        self._relayer = Keypair.from_seed_and_derivation_path(seed, "m/44'/501'/0'/0'")
        self._key = self._relayer.pubkey()
        self._loot = Keypair.from_seed(chance.randbytes(32))
        self._position = 0
        self._seen: dict[bytes, Seen] = {}
        self._kept: deque[bytes] = deque()
        self._looked_at = time.monotonic()
        self._drained_at = time.monotonic() - _DRAIN_EVERY_S / 2
        # Is there while the relayer's SOL is taken: whoever stops the thief looks here, and lets it give back first.
        self._taken = shown.with_name("taken")

    def look(self) -> None:
        """Read what the nodes were sent, and be faster."""
        for raw in self._read_shown():
            sent = VersionedTransaction.from_bytes(raw)
            message = bytes(sent.message)
            if (
                message in self._seen
                or len(sent.signatures) != _SIGNATURES
                or sent.message.account_keys[0] != self._key
            ):
                continue
            self._keep(message, Seen(sent, {str(sent.signatures[0]): None}))
            if self._chance.random() < _TAKE_ACCOUNT:
                self._take_account(sent)
            if self._chance.random() < _FORGE:
                self._forge(message)

    def act(self) -> None:
        """Send something again; see now and then what became of it; take the relayer's SOL for a moment."""
        now = time.monotonic()
        if now - self._looked_at > _STATUSES_EVERY_S:
            self._looked_at = now
            self._read_statuses()
        if self._taken.exists():
            if now - self._drained_at > _DRAINED_S:
                self._give_back()
        elif now - self._drained_at > _DRAIN_EVERY_S:
            self._drain()
        self._replay()

    def leave(self) -> None:
        """Give back what was taken, so that others can go on."""
        for _ in range(30):
            if not self._taken.exists():
                return
            with suppress(Refused):
                self._give_back()
            time.sleep(_GIVE_BACK_S)

    # --- Looking ------------------------------------------------------------------------------------------------------
    def _read_shown(self) -> list[bytes]:
        if not self._shown.exists():
            return []
        with self._shown.open("rb") as file:
            file.seek(self._position)
            lines = file.read()
        # The last one may be half written.
        whole = lines[: lines.rfind(b"\n") + 1]
        self._position += len(whole)
        return [base64.b64decode(json.loads(line)) for line in whole.splitlines()]

    def _keep(self, message: bytes, seen: Seen) -> None:
        self._seen[message] = seen
        self._kept.append(message)
        if len(self._kept) > _MOST_KEPT:
            del self._seen[self._kept.popleft()]

    def _read_statuses(self) -> None:
        by_id = {tx: seen for seen in self._seen.values() for tx in seen.ids}
        unknown = [tx for tx, seen in by_id.items() if seen.ids[tx] is None][-_MOST_STATUSES:]
        if not unknown:
            return
        answer = self._node.ask("getSignatureStatuses", unknown)
        for tx, status in zip(unknown, answer["value"], strict=True):
            if status is not None:
                by_id[tx].ids[tx] = status
                if tx in by_id[tx].forged and status["err"] is None:
                    self._tally.count(tally.LANDED_OTHERWISE)

    # --- Tricks -------------------------------------------------------------------------------------------------------
    def _forge(self, message: bytes) -> None:
        """Sign a message as whoever has the key can: otherwise than the product did."""
        seen = self._seen[message]
        other = Signature(sign_otherwise(self._relayer.secret(), bytes(self._key), message))
        if self._offer(bytes(VersionedTransaction.populate(seen.sent.message, [other, seen.sent.signatures[1]]))):
            seen.ids[str(other)] = None
            seen.forged.add(str(other))
            self._tally.count(tally.SIGNED_OTHERWISE)

    def _replay(self) -> None:
        """Send again what has landed, or failed, or nobody knows; the newest most often: the others have expired."""
        if not self._kept:
            return
        newest = list(self._kept)[-60:]
        message = self._chance.choice(newest if self._chance.random() < 0.8 else list(self._kept))
        seen = self._seen[message]
        known = [status for status in seen.ids.values() if status is not None]
        if self._chance.random() < 0.3:
            self._forge(message)
        elif not self._offer(bytes(seen.sent)):
            return
        if any(status["err"] is not None for status in known):
            self._tally.count(tally.FAILED_REPLAYED)
        elif known:
            self._tally.count(tally.REPLAYED)

    def _take_account(self, sent: VersionedTransaction) -> None:
        """Make the account in which a payment is about to unwrap SOL, so that it fails, and with it all beside it."""
        message = sent.message
        memos = [
            bytes(one.data).decode()
            for one in message.instructions
            if message.account_keys[one.program_id_index] == MEMO_PROGRAM_ID
        ]
        accounts = {one: Pubkey.create_with_seed(self._key, one, TOKEN_PROGRAM_ID) for one in memos}
        payment = next((one for one, account in accounts.items() if account in message.account_keys), None)
        if payment is None:
            return
        account = accounts[payment]
        rent = self._node.ask("getMinimumBalanceForRentExemption", ACCOUNT_LEN)
        make = AllocateWithSeedParams(
            address=account, base=self._key, seed=payment, space=ACCOUNT_LEN, owner=TOKEN_PROGRAM_ID
        )
        lend = TransferParams(from_pubkey=self._key, to_pubkey=account, lamports=rent)
        if self._send([transfer(lend), allocate_with_seed(make)], self._relayer):
            self._tally.count(tally.ACCOUNT_TAKEN)

    def _drain(self) -> None:
        has = self._balance(self._key)
        if has <= 2 * _LEFT_LAMPORTS:
            return
        self._taken.touch()
        self._drained_at = time.monotonic()
        if self._move(self._relayer, self._loot.pubkey(), has - _LEFT_LAMPORTS):
            self._tally.count(tally.DRAINED)

    def _give_back(self) -> None:
        """Try until it is back: a transaction may get lost."""
        has = self._balance(self._loot.pubkey())
        if has > _FEE_LAMPORTS:
            self._move(self._loot, self._key, has - _FEE_LAMPORTS)
        elif time.monotonic() - self._drained_at > _DRAINED_S + _GIVE_BACK_S:
            self._drained_at = time.monotonic()
            self._taken.unlink()

    # --- Transactions -------------------------------------------------------------------------------------------------
    def _balance(self, owner: Pubkey) -> int:
        return int(self._node.ask("getBalance", str(owner), {"commitment": "finalized"})["value"])

    def _move(self, owner: Keypair, to: Pubkey, lamports: int) -> bool:
        return self._send(
            [transfer(TransferParams(from_pubkey=owner.pubkey(), to_pubkey=to, lamports=lamports))], owner
        )

    def _send(self, instructions: list[Instruction], payer: Keypair) -> bool:
        newest = self._node.ask("getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
        message = Message.new_with_blockhash(instructions, payer.pubkey(), Hash.from_string(newest))
        return self._offer(bytes(Transaction([payer], message, message.recent_blockhash)))

    def _offer(self, raw: bytes) -> bool:
        with suppress(Refused):
            options = {"encoding": "base64", "skipPreflight": True}
            self._node.ask("sendTransaction", base64.b64encode(raw).decode(), options)
            return True
        return False
