"""A payee on Solana that opens and closes its account for a token as it likes."""

import base64
from contextlib import suppress
from dataclasses import replace
from typing import Any

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction
from spl.token.instructions import (
    burn,
    close_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
)
from spl.token.models import BurnParams, CloseAccountParams

from foundation.kernel.assets import Asset
from foundation.kernel.errors import ServiceNotPayable
from payments.deciding.operations import request_payment
from payments.environment import payment_environment
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from tests.support.factories import make_agent, make_service
from tests.support.localnets import SOLANA
from tests.support.payment_requests import make_request

UNITS = 1_000_000
SOL = 10**9
NEWEST = {"commitment": "processed", "encoding": "base64"}
SYSTEM = str(Pubkey.default())


class Payee:
    """A service that is paid `UNITS` of a token a few times, and what its owner does with its account."""

    def __init__(self, asset: Asset) -> None:
        self._key = Keypair()
        self._agent = make_agent(asset=asset)
        self.service = make_service(asset=asset, recipient=f"{SOLANA.alias}:{self._key.pubkey()}")
        self._mint = Pubkey.from_string(SOLANA.token(asset))
        self._program = Pubkey.from_string(SOLANA.rpc("getAccountInfo", str(self._mint), NEWEST)["value"]["owner"])
        self._account = get_associated_token_address(self._key.pubkey(), self._mint, self._program)
        self.payments: list[Payment] = []
        wallet = {"lamports": SOL, "owner": SYSTEM, "data": ["", "base64"]}
        SOLANA.rpc("dev_setAccount", str(self._key.pubkey()), wallet)

    def ask_for_payment(self) -> bool:
        """Have it paid once more; tells whether that was approved."""
        SOLANA.observe()
        return self.ask_before_the_watcher_looks()

    def ask_before_the_watcher_looks(self) -> bool:
        environment = replace(payment_environment(), wake=lambda _: None)
        with suppress(ServiceNotPayable):
            entry = request_payment(make_request(self._agent, self.service), environment).entry
            self.payments.append(Payment.objects.get(pk=entry.payment_id))
            return True
        return False

    def include_payment(self) -> None:
        """Let the newest payment be in a block that most of the chain stands by, and notice it."""
        SOLANA.include(self.payments[-1])
        SOLANA.follow()

    def settle_payments(self) -> None:
        """Follow all payments to their end, while the watcher does not look."""
        while Payment.objects.filter(agent=self._agent, status=PaymentStatus.APPROVED).exists():
            SOLANA.send()
            SOLANA.follow()
            SOLANA.go_on()

    def open(self) -> None:
        owner = self._key.pubkey()
        self._do(create_idempotent_associated_token_account(owner, owner, self._mint, self._program))

    def close(self, left_lamports: int = 0) -> None:
        """Close it, take the rent, and perhaps leave some of it at the account's address."""
        owner, program, account = self._key.pubkey(), self._program, self._account
        self._do(
            burn(BurnParams(program_id=program, account=account, mint=self._mint, owner=owner, amount=self.held)),
            close_account(CloseAccountParams(program_id=program, account=account, dest=owner, owner=owner)),
            transfer(TransferParams(from_pubkey=owner, to_pubkey=account, lamports=left_lamports)),
        )

    @property
    def held(self) -> int:
        """What is in its account, in base units."""
        found = SOLANA.rpc("getAccountInfo", str(self._account), NEWEST)["value"]
        return int.from_bytes(base64.b64decode(found["data"][0])[64:72], "little") if found else 0

    @property
    def rents(self) -> int:
        """Count the payments that are in a block, and took more out of the relayer than their fee."""
        included = [one for one in map(_newest, self.payments) if SOLANA.find_block(one) is not None]
        return sum(_took_rent(tx) for tx in included)

    def _do(self, *instructions: Instruction) -> None:
        """Execute instructions; returns when most of the chain stands by that."""
        blockhash = Hash.from_string(SOLANA.rpc("getLatestBlockhash", NEWEST)["value"]["blockhash"])
        signed = Transaction.new_signed_with_payer(instructions, self._key.pubkey(), [self._key], blockhash)
        options = {"encoding": "base64", "preflightCommitment": "processed"}
        tx = SOLANA.rpc("sendTransaction", base64.b64encode(bytes(signed)).decode(), options)
        while SOLANA.find_block(tx) is None:
            SOLANA.mine()
        assert SOLANA.succeeded(tx)


def _newest(payment: Payment) -> str:
    return payment.settlements.latest("created_at").tx


def _took_rent(tx: str) -> bool:
    found: Any = SOLANA.rpc("getTransaction", tx, {"commitment": "confirmed", "maxSupportedTransactionVersion": 0})
    meta = found["meta"]
    return bool(meta["preBalances"][0] - meta["postBalances"][0] > meta["fee"])
