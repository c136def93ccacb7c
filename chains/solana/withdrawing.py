"""Take money out of an escrow, or move it to another one: what any two of the three signers can have done together.

A message is made for the two who will sign, each signs where its key is, and the whole is sent once nobody's signature
is missing. Pure, but for `find_held`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import Transaction
from spl.token.instructions import create_idempotent_associated_token_account

from allowance.kernel.assets import Asset
from chains.rpc.nodes import Nodes
from chains.solana.answers import FINALIZED, accounts_calls, read_accounts
from chains.solana.derivation import NATIVE_MINT, EscrowSigners, associated_account
from chains.solana.escrow import Escrow
from chains.solana.instructions import Token, count_lamports, say, spend
from chains.solana.sending import BUDGET

# What fits into one packet, with the signatures.
_MOST_BYTES = 1_232
_PAYMENT_PREFIX = "pay_"


@dataclass(frozen=True, slots=True)
class HeldToken:
    """What an escrow holds of a token, in base units."""

    token: Token
    units: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Base units of a token for a recipient's associated account: a wallet's, or that of another escrow's multisig."""

    token: Token
    units: int
    recipient: Pubkey


def find_held(nodes: Nodes, escrow: Escrow) -> dict[Asset, HeldToken]:
    """Find what can be taken out of an escrow, as of the newest final block; what it holds nothing of is left out.

    SOL is counted with what came as plain lamports, which a withdrawal can take, too.

    Raises:
        ChainUnavailable: too few nodes answered, or they contradict each other: some are a block behind.
    """
    accounts = escrow.find_accounts()
    addresses = [account.address for account in accounts.values()]
    there = nodes.agree(accounts_calls(addresses, FINALIZED), lambda answers: read_accounts(answers, addresses))
    found = {
        asset: HeldToken(
            Token(Pubkey.from_string(account.mint), Pubkey.from_string(account.program), asset.decimals),
            account.holds(there[account.address]),
        )
        for asset, account in accounts.items()
    }
    return {asset: held for asset, held in found.items() if held.units}


def withdrawal_message(
    signers: EscrowSigners,
    *,
    signing: tuple[Pubkey, Pubkey],
    fee_payer: Pubkey,
    transfers: Sequence[Transfer],
    memo: str,
    blockhash: Hash,
) -> Message:
    """Make the message that has tokens transferred out of the escrow, all of it or nothing.

    `signing`: who of the three will sign, besides `fee_payer`, who may be one of them or somebody else and pays for the
    recipients' accounts, too, where they are missing. `memo` says what it is for: it is what a transaction that leaves
    the escrow is known by. SOL goes out wrapped: a wallet unwraps it by closing its account for it.

    Raises:
        ValueError: `signing` are not two of the three, there is nothing to transfer or too much for one transaction,
            or the memo could be the id of a payment, which would count as paid by this.
    """
    if len({*signing} & {*signers.keys}) != len(signing):
        raise ValueError("A withdrawal is signed by two of the escrow's three signers.")
    if not transfers or any(transfer.units <= 0 for transfer in transfers):
        raise ValueError("A withdrawal transfers something, of each token that it names.")
    if not memo or memo.startswith(_PAYMENT_PREFIX):
        raise ValueError("The memo of a withdrawal says what it is for, and names no payment.")
    steps = [*_preparations(signers, fee_payer, transfers), say(memo, fee_payer)]
    for one in transfers:
        to = associated_account(one.recipient, one.token.mint, one.token.program)
        steps.append(spend(signers, one.token, to, one.units, signing))
    message = Message.new_with_blockhash([*BUDGET, *steps], fee_payer, blockhash)
    if len(bytes(Transaction.new_unsigned(message))) > _MOST_BYTES:
        raise ValueError("One transaction cannot hold so much: transfer fewer tokens at once.")
    return message


def sign_partially(message: Message, keypairs: Sequence[Keypair]) -> bytes:
    """Sign a message with the keys that are here, into a transaction where the signatures of others are zeroes.

    Raises:
        ValueError: a key that the message does not ask for.
    """
    return sign_further(bytes(Transaction.new_unsigned(message)), keypairs)


def sign_further(raw: bytes, keypairs: Sequence[Keypair]) -> bytes:
    """Add signatures to those that a transaction has. Know what it does before: a signature is good for all of it.

    Raises:
        ValueError: a key that its message does not ask for.
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
    """Find who has still to sign a transaction; nobody: it can be sent."""
    transaction = Transaction.from_bytes(raw)
    signed = zip(_wanted(transaction.message), transaction.signatures, strict=True)
    return [key for key, signature in signed if signature == Signature.default()]


def _preparations(signers: EscrowSigners, fee_payer: Pubkey, transfers: Sequence[Transfer]) -> list[Instruction]:
    """Make the recipients' accounts that are missing, and count what came to the escrow as plain lamports."""
    accounts = dict.fromkeys((one.recipient, one.token) for one in transfers)
    makes = [
        create_idempotent_associated_token_account(fee_payer, recipient, token.mint, token.program)
        for recipient, token in accounts
    ]
    has_sol = any(one.token.mint == NATIVE_MINT for one in transfers)
    return [*makes, *([count_lamports(signers)] if has_sol else [])]


def _wanted(message: Message) -> list[Pubkey]:
    return message.account_keys[: message.header.num_required_signatures]
