"""The demo's own look at a payment on Solana: whatever is not exactly what was claimed is noticed."""

import base64
import os
from dataclasses import dataclass, replace
from typing import Any

import base58
import pytest

from chains.catalogue import NATIVE_MINT, ServedChain, find_chain
from foundation.kernel.assets import Asset
from workshop.demo.chain_reader import Arrival, Claim
from workshop.demo.solana_reader import find_arrival

SYSTEM = "1" * 32
MEMO = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
PAYMENT_ID = "pay_01m7wvfpqr9f7dchrw0jbqq4ae"

Instruction = tuple[str, list[str], bytes]


def new_key() -> str:
    return base58.b58encode(os.urandom(32)).decode()


RELAYER, SIGNER, OWNER, MULTISIG, ESCROW, MINT, PAYEE, ACCOUNT, STRANGER = (new_key() for _ in range(9))


@dataclass(frozen=True)
class Node:
    """What a node tells of one transaction and of the accounts around it."""

    instructions: tuple[Instruction, ...]
    holds: int
    error: Any = None
    owner_of_account: str = PAYEE
    multisig: bytes = b"\2\3\1" + b"".join(map(base58.b58decode, (RELAYER, SIGNER, OWNER)))
    multisig_program: str = TOKEN_2022

    def ask(self, method: str, *params: Any) -> Any:
        if method == "getTransaction":
            return self._transaction()
        if method == "getAccountInfo":
            of_payee = bytes(32) + base58.b58decode(self.owner_of_account) + bytes(101)
            data = self.multisig + bytes(256) if params[0] == MULTISIG else of_payee
            return {"value": {"owner": self.multisig_program, "data": [base64.b64encode(data).decode(), "base64"]}}
        return {"value": self.holds if method == "getBalance" else {"amount": str(self.holds)}}

    def _transaction(self) -> Any:
        keys = sorted({key for program, accounts, _ in self.instructions for key in (program, *accounts)})
        instructions = [
            {
                "programIdIndex": keys.index(program),
                "accounts": [keys.index(one) for one in accounts],
                "data": base58.b58encode(data).decode(),
            }
            for program, accounts, data in self.instructions
        ]
        message = {"accountKeys": keys, "instructions": instructions}
        return {"slot": 77, "meta": {"err": self.error}, "transaction": {"message": message}}


@dataclass(frozen=True, slots=True)
class FakeClaim(Claim):
    """A claim that is put to a node of the test's own; None: one that does not know the transaction."""

    node: Node | None = None

    def ask(self, method: str, *params: Any) -> Any:
        return self.node and self.node.ask(method, *params)


def spend(
    units: int,
    *,
    mint: str = MINT,
    signers: tuple[str, ...] = (RELAYER, SIGNER),
    program: str = TOKEN_2022,
) -> Instruction:
    """Write a TransferChecked out of the escrow."""
    return program, [ESCROW, mint, ACCOUNT, MULTISIG, *signers], bytes([12]) + units.to_bytes(8, "little") + b"\6"


def memo(text: str) -> Instruction:
    return MEMO, [RELAYER], text.encode()


def transfer(lamports: int, to: str = PAYEE) -> Instruction:
    """Write a plain transfer of SOL by the relayer."""
    return SYSTEM, [RELAYER, to], bytes([2, 0, 0, 0]) + lamports.to_bytes(8, "little")


def look(node: Node | None, asset: Asset = Asset.PYUSD, amount: str = "2.50") -> Arrival | None:
    chain = find_chain("solana-localnet")
    assert chain
    served = ServedChain(chain, (), MULTISIG, {Asset.SOL: NATIVE_MINT, Asset.PYUSD: MINT})
    return find_arrival(FakeClaim(served, PAYMENT_ID, "a signature", asset, amount, PAYEE, node))


PAID = Node((spend(2_500_000), memo(PAYMENT_ID)), holds=2_500_000)
IN_SOL = Node(
    (
        transfer(2_039_280, to=STRANGER),
        spend(250_000_000, mint=NATIVE_MINT, program=TOKEN),
        memo(PAYMENT_ID),
        transfer(250_000_000),
    ),
    holds=250_000_000,
    multisig_program=TOKEN,
)


def test_a_payment_of_a_token_that_is_as_claimed_is_told_with_what_it_consists_of():
    arrival = look(PAID)

    assert arrival
    assert arrival.is_exact
    assert arrival.text == (
        f"in slot 77, TransferChecked (Token-2022) of 2,500,000 base units by both signers, memo {PAYMENT_ID}; "
        "the payee got 2,500,000 and holds 2,500,000"
    )


def test_a_payment_of_sol_that_is_as_claimed_is_told_by_what_the_plain_transfer_brought():
    arrival = look(IN_SOL, Asset.SOL, "0.25")

    assert arrival
    assert arrival.is_exact
    assert "the payee got 250,000,000 and holds 250,000,000" in arrival.text


def test_of_payments_that_share_a_transaction_the_one_that_is_claimed_is_told():
    others = ((memo("pay_one"), spend(7, mint=STRANGER)), (memo("pay_other"), spend(9)))
    own = (memo(PAYMENT_ID), spend(2_500_000))
    alone = look(replace(PAID, instructions=own))

    for order in ((*others[0], *own, *others[1]), (*own, *others[0]), (*others[1], *own)):
        assert look(replace(PAID, instructions=order)) == alone
    for unclear in ((*own, spend(7)), (*others[0], *own, *own), others[0], (*own, *others[0], memo("pay_other"))):
        arrival = look(replace(PAID, instructions=unclear))
        assert arrival
        assert not arrival.is_exact


def test_a_transaction_that_is_not_final_has_not_arrived():
    assert look(None) is None


@pytest.mark.parametrize(
    "node",
    [
        replace(PAID, error={"InstructionError": [2, {"Custom": 1}]}),
        replace(PAID, instructions=(memo(PAYMENT_ID),)),
        replace(PAID, instructions=(spend(1_250_000), spend(1_250_000), memo(PAYMENT_ID))),
        replace(PAID, instructions=(spend(2_500_001), memo(PAYMENT_ID)), holds=2_500_001),
        replace(PAID, holds=2_499_999),
        replace(PAID, instructions=(spend(2_500_000, mint=STRANGER), memo(PAYMENT_ID))),
        replace(PAID, instructions=(spend(2_500_000), memo("pay_other"))),
        replace(PAID, instructions=(spend(2_500_000), memo(PAYMENT_ID), memo(PAYMENT_ID))),
        replace(PAID, instructions=(spend(2_500_000, signers=(RELAYER, RELAYER)), memo(PAYMENT_ID))),
        replace(PAID, instructions=(spend(2_500_000, signers=(RELAYER,)), memo(PAYMENT_ID))),
        replace(PAID, multisig=b"\1" + PAID.multisig[1:]),
        replace(PAID, multisig=b"\2\2" + PAID.multisig[2:67] + bytes(32)),
        replace(PAID, multisig=PAID.multisig[:35] + base58.b58decode(STRANGER) + PAID.multisig[67:]),
        replace(PAID, multisig=PAID.multisig[:67] + base58.b58decode(SIGNER)),
        replace(PAID, instructions=(spend(2_500_000, signers=(RELAYER, OWNER)), memo(PAYMENT_ID))),
        replace(PAID, instructions=(spend(2_500_000, signers=(OWNER, SIGNER)), memo(PAYMENT_ID))),
        replace(PAID, multisig_program=TOKEN),
        replace(PAID, owner_of_account=STRANGER),
    ],
    ids=[
        "failed", "nothing spent", "spent twice", "more", "payee holds less", "another mint", "another payment",
        "two memos", "one signer twice", "one signer", "one of three suffices", "no owner", "other signers",
        "an owner with a signer's key", "the owner for the policy signer", "the owner for the relayer",
        "another program", "another payee",
    ],
)  # fmt: skip
def test_what_is_not_exactly_as_claimed_is_noticed(node: Node) -> None:
    arrival = look(node)

    assert arrival
    assert not arrival.is_exact


@pytest.mark.parametrize(
    "node",
    [
        replace(IN_SOL, instructions=IN_SOL.instructions[:-1]),
        replace(IN_SOL, instructions=(*IN_SOL.instructions[:-1], transfer(250_000_000, to=STRANGER))),
        replace(IN_SOL, instructions=(*IN_SOL.instructions[:-1], transfer(249_999_999)), holds=249_999_999),
        replace(IN_SOL, holds=250_000_001),
    ],
    ids=["no transfer", "to another payee", "less", "payee holds more"],
)
def test_sol_that_the_payee_did_not_get_exactly_is_noticed(node: Node) -> None:
    arrival = look(node, Asset.SOL, "0.25")

    assert arrival
    assert not arrival.is_exact
