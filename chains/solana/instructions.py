"""The instructions of a payment. Pure.

All of a transaction are carried out, or none. The memo comes right before the transfer, where accounts that require
memos expect it, and where the escrow's history is read for it (`steps.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import AllocateWithSeedParams, TransferParams, allocate_with_seed, transfer
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.memo.instructions import create_memo
from spl.memo.models import MemoParams
from spl.token.constants import ACCOUNT_LEN, NATIVE_DECIMALS
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    initialize_account3,
    sync_native,
    transfer_checked,
)
from spl.token.models import CloseAccountParams, InitializeAccount3Params, SyncNativeParams, TransferCheckedParams

from chains.solana.derivation import (
    NATIVE_MINT,
    TOKEN_PROGRAM,
    EscrowSigners,
    associated_account,
    temporary_account,
)

# Measured: SOL 2,200; a token into an existing account 5,600, with Token-2022 and the extensions of PYUSD 11,200; into
# a new account 14,700 and 24,600, and 1,500 more for each step of deriving its address: mostly none or one, twenty for
# one address in a million. Not measured: older token and memo programs take more, perhaps 35,000.
UNIT_LIMIT = 100_000
# What the chain lets one transaction have: bytes with its signatures, which is one packet, and compute units.
MOST_BYTES = 1_232


@dataclass(frozen=True, slots=True)
class Token:
    """A token to pay with: its mint, and the program of the mint."""

    mint: Pubkey
    program: Pubkey
    decimals: int


SOL = Token(NATIVE_MINT, TOKEN_PROGRAM, NATIVE_DECIMALS)


def budget(unit_price_micro_lamports: int, payments: int = 1) -> list[Instruction]:
    """Limit the compute units of a transaction of so many payments, and offer a price for each."""
    return [set_compute_unit_limit(payments * UNIT_LIMIT), set_compute_unit_price(unit_price_micro_lamports)]


def pay_token(
    signers: EscrowSigners, token: Token, recipient: Pubkey, units: int, payment_id: str, *, makes_account: bool
) -> list[Instruction]:
    """Pay `units`, base units, into the recipient's associated account.

    A missing account is created, at the relayer's cost, if the payment `makes_account`; otherwise the payment fails.
    """
    create = create_idempotent_associated_token_account(signers.relayer, recipient, token.mint, token.program)
    to = associated_account(recipient, token.mint, token.program)
    return [*([create] if makes_account else []), *_pay(signers, token, to, units, payment_id)]


def pay_sol(
    signers: EscrowSigners, recipient: Pubkey, lamports: int, payment_id: str, rent_lamports: int
) -> list[Instruction]:
    """Unwrap the exact lamports in a temporary account of the relayer, and pass them on.

    `rent_lamports` is the least that such an account must hold; the relayer lends it and gets it back.
    """
    relayer, temporary = signers.relayer, temporary_account(signers.relayer, payment_id)
    return [
        count_lamports(signers),
        # `create_account` fails if somebody has sent lamports to the address; these instructions do not.
        transfer(TransferParams(from_pubkey=relayer, to_pubkey=temporary, lamports=rent_lamports)),
        allocate_with_seed(
            AllocateWithSeedParams(
                address=temporary, base=relayer, seed=payment_id, space=ACCOUNT_LEN, owner=TOKEN_PROGRAM
            )
        ),
        initialize_account3(
            InitializeAccount3Params(program_id=TOKEN_PROGRAM, account=temporary, mint=NATIVE_MINT, owner=relayer)
        ),
        *_pay(signers, SOL, temporary, lamports, payment_id),
        close_account(CloseAccountParams(program_id=TOKEN_PROGRAM, account=temporary, dest=relayer, owner=relayer)),
        transfer(TransferParams(from_pubkey=relayer, to_pubkey=recipient, lamports=lamports)),
    ]


def count_lamports(signers: EscrowSigners) -> Instruction:
    """Count plain lamports that came to the escrow as wrapped SOL: only then can they be spent."""
    native = signers.account(NATIVE_MINT, TOKEN_PROGRAM)
    return sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM, account=native))


def write_memo(text: str, by: Pubkey) -> Instruction:
    """Write the memo, in UTF-8, which `by` signs."""
    return create_memo(MemoParams(program_id=MEMO_PROGRAM_ID, signer=by, message=text.encode()))


def spend(signers: EscrowSigners, token: Token, to: Pubkey, units: int, signing: Sequence[Pubkey]) -> Instruction:
    """Transfer base units out of the escrow into an account of the token; `signing` are two of its signers."""
    spending = TransferCheckedParams(
        program_id=token.program,
        source=signers.account(token.mint, token.program),
        mint=token.mint,
        dest=to,
        owner=signers.escrow(token.program),
        amount=units,
        decimals=token.decimals,
        signers=list(signing),
    )
    return transfer_checked(spending)


def _pay(signers: EscrowSigners, token: Token, to: Pubkey, units: int, payment_id: str) -> list[Instruction]:
    paying = (signers.relayer, signers.policy_signer)
    return [write_memo(payment_id, signers.relayer), spend(signers, token, to, units, paying)]
