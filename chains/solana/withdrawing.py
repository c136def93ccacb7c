"""Withdraw from an escrow, or move its holdings to another one, as any two of the three signers can do together.

A message is made for two signers, each of them signs where its key is kept, and the transaction is submitted once it
has all signatures. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import Transaction
from spl.token.instructions import create_idempotent_associated_token_account

from chains.solana.derivation import NATIVE_MINT, EscrowSigners, associated_account
from chains.solana.instructions import MOST_BYTES, Token, count_lamports, spend, write_memo

# Creating an account of Token-2022 takes 21,000 and more; this is enough for one of each asset.
_UNIT_LIMIT = 400_000
# For a single transaction we can outbid almost everybody: 40,000 lamports.
_UNIT_PRICE_MICRO_LAMPORTS = 100_000
BUDGET = (set_compute_unit_limit(_UNIT_LIMIT), set_compute_unit_price(_UNIT_PRICE_MICRO_LAMPORTS))
FEE_LAMPORTS = 5_000 + _UNIT_LIMIT * _UNIT_PRICE_MICRO_LAMPORTS // 1_000_000
_PAYMENT_PREFIX = "pay_"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Base units of a token for a recipient's associated account: a wallet's, or that of another escrow's multisig."""

    token: Token
    units: int
    recipient: Pubkey


def withdrawal_message(
    signers: EscrowSigners,
    *,
    signing: tuple[Pubkey, Pubkey],
    fee_payer: Pubkey,
    transfers: Sequence[Transfer],
    memo: str,
    blockhash: Hash,
) -> Message:
    """Make the message that transfers tokens out of the escrow, all of them or none.

    `signing`: the two of the three who will sign. `fee_payer` signs, too; it may be one of them or another key, and
    also pays for missing accounts of recipients. `memo` names the purpose, by which an outflow is recognised. SOL
    leaves the escrow wrapped: a wallet unwraps it by closing its account.

    Raises:
        ValueError: `signing` are not two of the three, there is nothing to transfer, or too much for one
            transaction, or the memo could be the id of a payment, which would then count as paid.
    """
    if len({*signing} & {*signers.keys}) != len(signing):
        raise ValueError("A withdrawal is signed by two of the escrow's three signers.")
    if not transfers or any(transfer.units <= 0 for transfer in transfers):
        raise ValueError("A withdrawal transfers something, of each token that it names.")
    if not memo or memo.startswith(_PAYMENT_PREFIX):
        raise ValueError("The memo of a withdrawal says what it is for, and names no payment.")
    steps = [*_preparations(signers, fee_payer, transfers), write_memo(memo, fee_payer)]
    for one in transfers:
        to = associated_account(one.recipient, one.token.mint, one.token.program)
        steps.append(spend(signers, one.token, to, one.units, signing))
    message = Message.new_with_blockhash([*BUDGET, *steps], fee_payer, blockhash)
    if len(bytes(Transaction.new_unsigned(message))) > MOST_BYTES:
        raise ValueError("One transaction cannot hold so much: transfer fewer tokens at once.")
    return message


def sign_partially(message: Message, keypairs: Sequence[Keypair]) -> bytes:
    """Sign a message with the given keys; in the transaction, the signatures of others are zeros.

    Raises:
        ValueError: the message does not require the signature of a key.
    """
    return sign_further(bytes(Transaction.new_unsigned(message)), keypairs)


def sign_further(raw: bytes, keypairs: Sequence[Keypair]) -> bytes:
    """Add signatures to a transaction. Check its contents first: a signature approves all of it.

    Raises:
        ValueError: the message does not require the signature of a key.
    """
    transaction = Transaction.from_bytes(raw)
    message, signatures = transaction.message, list(transaction.signatures)
    wanted = _wanted(message)
    for keypair in keypairs:
        if keypair.pubkey() not in wanted:
            raise ValueError(f"{keypair.pubkey()} is not asked to sign.")
        signatures[wanted.index(keypair.pubkey())] = keypair.sign_message(bytes(message))
    return bytes(Transaction.populate(message, signatures))


def find_missing_signers(raw: bytes) -> list[Pubkey]:
    """Find the keys that still have to sign a transaction; none: it can be submitted."""
    transaction = Transaction.from_bytes(raw)
    signed = zip(_wanted(transaction.message), transaction.signatures, strict=True)
    return [key for key, signature in signed if signature == Signature.default()]


def _preparations(signers: EscrowSigners, fee_payer: Pubkey, transfers: Sequence[Transfer]) -> list[Instruction]:
    """Return the instructions that make missing accounts of recipients, and count plain lamports as wrapped SOL."""
    accounts = dict.fromkeys((one.recipient, one.token) for one in transfers)
    makes = [
        create_idempotent_associated_token_account(fee_payer, recipient, token.mint, token.program)
        for recipient, token in accounts
    ]
    has_sol = any(one.token.mint == NATIVE_MINT for one in transfers)
    return [*makes, *([count_lamports(signers)] if has_sol else [])]


def _wanted(message: Message) -> list[Pubkey]:
    return message.account_keys[: message.header.num_required_signatures]
