"""Move the holdings of an escrow to the escrow of new keys: two of the three old keys sign, a new one pays.

See `withdrawing`. The new relayer pays, so that a thief of the old relayer's key cannot spend the money for the fee.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from chains.port import Finality
from chains.rpc.nodes import Nodes
from chains.solana.adapter import SolanaChain
from chains.solana.answers import CONFIRMED, FINALIZED, accounts_calls, read_accounts
from chains.solana.blockhashes import agree_on_blockhash
from chains.solana.derivation import TOKEN_PROGRAM, EscrowSigners, relayer_keypair
from chains.solana.escrow import SolanaEscrow
from chains.solana.instructions import Token
from chains.solana.withdrawing import (
    Transfer,
    find_missing_signers,
    sign_partially,
    withdrawal_message,
)
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused


@dataclass(frozen=True, slots=True)
class HeldToken:
    """The holdings of an escrow in one token, in base units."""

    token: Token
    units: int


@dataclass(frozen=True, slots=True)
class SignedTransfer:
    """A signed transfer. Blocks up to `last_height` can include it; `missing`: the keys that still have to sign it."""

    tx: str
    raw: bytes
    last_height: int
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        """The transaction in base64, the form of wallets."""
        return base64.b64encode(self.raw).decode()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that we have: seeds of relayers and secret keys of policy signers, of any escrow."""

    seeds: Sequence[bytes]
    policy_keys: Sequence[bytes]

    def find(self, signers: EscrowSigners) -> list[Keypair]:
        """Find the keys among these that sign for an escrow, the relayer first."""
        relayers = [relayer_keypair(seed, 0) for seed in self.seeds]
        here = {pair.pubkey(): pair for pair in (*relayers, *map(Keypair.from_seed, self.policy_keys))}
        return [here[key] for key in signers.keys if key in here]


def read_signers(nodes: Nodes, escrow: str) -> EscrowSigners:
    """Read the signers of an escrow; a node cannot lie about them, since the address is derived from them.

    Raises:
        OperationRefused: there is none.
        ChainUnavailable: no node answers.
    """
    found = nodes.read(accounts_calls([escrow], CONFIRMED), lambda answers: read_accounts(answers, [escrow])[escrow])
    try:
        signers = EscrowSigners.of_data(b"" if found is None else found.data)
    except ValueError:
        raise OperationRefused(f"There is no escrow at {escrow}.") from None
    if str(signers.escrow(TOKEN_PROGRAM)) != escrow:
        raise OperationRefused(f"The account {escrow} is not the escrow of its own signers.")
    return signers


def find_held(nodes: Nodes, escrow: SolanaEscrow) -> dict[Asset, HeldToken]:
    """Find the tokens that can be withdrawn from an escrow, as of the newest final block.

    SOL includes plain lamports, which a withdrawal can take, too.

    Raises:
        ChainUnavailable: too few nodes answered, or they contradict each other: some are a block behind.
    """
    accounts = escrow.find_accounts()
    addresses = [account.address for account in accounts.values()]
    there = nodes.read_agreed(accounts_calls(addresses, FINALIZED), lambda answers: read_accounts(answers, addresses))
    found = {
        asset: HeldToken(
            Token(Pubkey.from_string(account.mint), Pubkey.from_string(account.program), asset.decimals),
            account.units_in_account(there[account.address]),
        )
        for asset, account in accounts.items()
    }
    return {asset: held for asset, held in found.items() if held.units}


class Mover:
    """Moves the holdings of the escrow of `chain` to that of `signers`. `payer` is one of the new signers.

    Raises:
        OperationRefused: we have none of the old escrow's keys, so that its owner could not get a second signature.
    """

    def __init__(self, chain: SolanaChain, keys: Keys, signers: EscrowSigners, payer: Keypair) -> None:
        self._chain, self._new, self._payer = chain, signers, payer
        self._keypairs = keys.find(chain.signers)[:2]
        if not self._keypairs:
            raise OperationRefused(
                f"Neither the relayer's nor the policy signer's key of {chain.escrow} is here: two of three must sign."
            )

    @property
    def signs_alone(self) -> bool:
        """Whether we have two of the three keys, so that the owner need not sign."""
        return len(self._keypairs) > 1

    def recipient(self, held: HeldToken) -> str:
        """Return the account of the new escrow that receives a token."""
        return str(self._new.account(held.token.mint, held.token.program))

    def make(self, held: HeldToken, memo: str, finality: Finality) -> SignedTransfer:
        """Make the transaction that moves all units of a token, signed with the keys that we have.

        Raises:
            ChainUnavailable: the nodes do not agree on a blockhash.
        """
        blockhash, last_height = agree_on_blockhash(self._chain.nodes, finality)
        old = self._chain.signers
        here = [pair.pubkey() for pair in self._keypairs]
        first, second = here if self.signs_alone else (*here, old.owner)
        message = withdrawal_message(
            old,
            signing=(first, second),
            fee_payer=self._payer.pubkey(),
            transfers=[Transfer(held.token, held.units, self._new.escrow(held.token.program))],
            memo=memo,
            blockhash=Hash.from_string(blockhash),
        )
        raw = sign_partially(message, [self._payer, *self._keypairs])
        missing = tuple(map(str, find_missing_signers(raw)))
        return SignedTransfer(str(Transaction.from_bytes(raw).signatures[0]), raw, last_height, missing)


def old_chain(chain: SolanaChain, seed: bytes, signers: EscrowSigners) -> SolanaChain:
    """Make the adapter of an escrow of earlier keys: it only searches and follows, and signs nothing."""
    served = replace(chain.served, escrow=str(signers.escrow(TOKEN_PROGRAM)), owner=str(signers.owner))
    return SolanaChain.of(served, seed, signers)
