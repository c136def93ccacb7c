"""Move what an escrow holds to the escrow of other keys: two of the old three sign, somebody else pays.

Source: `withdrawing`. The new relayer pays, so that who has stolen the old one's key cannot take the fee away.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

from solders.hash import Hash
from solders.keypair import Keypair
from solders.transaction import Transaction

from allowance.kernel.errors import OperationRefused
from chains.port import Finality
from chains.rpc.nodes import Nodes
from chains.solana.adapter import SolanaChain
from chains.solana.answers import CONFIRMED, accounts_calls, read_accounts
from chains.solana.blockhashes import agree_on_blockhash
from chains.solana.derivation import TOKEN_PROGRAM, EscrowSigners, relayer_keypair
from chains.solana.withdrawing import (
    HeldToken,
    Transfer,
    find_missing_signers,
    sign_partially,
    withdrawal_message,
)


@dataclass(frozen=True, slots=True)
class Made:
    """A transaction that moves something. It can land up to `last_height`; `missing`: who has still to sign it."""

    tx: str
    raw: bytes
    last_height: int
    missing: tuple[str, ...]

    @property
    def text(self) -> str:
        """The transaction in base64, as wallets take it."""
        return base64.b64encode(self.raw).decode()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that are here: seeds of relayers and secret keys of policy signers, of whichever escrow they are."""

    seeds: Sequence[bytes]
    policy_keys: Sequence[bytes]

    def find(self, signers: EscrowSigners) -> list[Keypair]:
        """Find which of an escrow's signers these are, the relayer first."""
        relayers = [relayer_keypair(seed, 0) for seed in self.seeds]
        here = {pair.pubkey(): pair for pair in (*relayers, *map(Keypair.from_seed, self.policy_keys))}
        return [here[key] for key in signers.keys if key in here]


def read_signers(nodes: Nodes, escrow: str) -> EscrowSigners:
    """Read whose an escrow is; a node cannot lie about that, since the address is derived from them.

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
        raise OperationRefused(f"What stands at {escrow} is not the escrow of who signs for it.")
    return signers


class Mover:
    """Moves what the escrow of `chain` holds to that of `signers`. `payer` pays for it, and is one of the new ones.

    Raises:
        OperationRefused: none of the old escrow's keys is here, so that nobody could sign beside its owner.
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
        """Whether two of the three keys are here, so that the owner need not sign."""
        return len(self._keypairs) > 1

    def recipient(self, held: HeldToken) -> str:
        """Tell which account of the new escrow a token goes to."""
        return str(self._new.account(held.token.mint, held.token.program))

    def make(self, held: HeldToken, memo: str, finality: Finality) -> Made:
        """Make the transaction that moves all that is held of a token, signed with the keys that are here.

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
        return Made(str(Transaction.from_bytes(raw).signatures[0]), raw, last_height, missing)


def old_chain(chain: SolanaChain, seed: bytes, signers: EscrowSigners) -> SolanaChain:
    """Make the adapter of an escrow of earlier keys: it searches and follows, and signs nothing."""
    served = replace(chain.served, escrow=str(signers.escrow(TOKEN_PROGRAM)), owner=str(signers.owner))
    return SolanaChain(served, seed, signers)
