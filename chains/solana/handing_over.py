"""Prepare a withdrawal for the owner of an escrow: signed by the relayer, to be signed and submitted by the owner."""

import base64
from dataclasses import dataclass

from solders.hash import Hash
from solders.pubkey import Pubkey

from chains.port import ChainUnavailable, Finality
from chains.solana.adapter import SolanaChain
from chains.solana.blockhashes import agree_on_blockhash
from chains.solana.derivation import relayer_keypair
from chains.solana.instructions import Token
from chains.solana.withdrawing import Transfer, sign_partially, withdrawal_message
from foundation.kernel.assets import Asset


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A transaction in base64 that lacks only the owner's signature; `valid_until_height` as of `SignedTransaction`."""

    transaction: str
    valid_until_height: int


def hand_over(
    chain: SolanaChain,
    finality: Finality,
    relayer_seed: bytes,
    *,
    asset: Asset,
    units: int,
    recipient: str,
    memo: str,
) -> HandedOver:
    """Make a transfer of an asset (`units` in base units) to a wallet, whose fee the owner pays.

    Raises:
        ChainUnavailable: too few nodes answered, or the escrow has no account of the asset.
    """
    account = chain.escrow.find_accounts().get(asset)
    if account is None:
        raise ChainUnavailable(f"The escrow has no account of {asset}, or the nodes do not know it now.")
    blockhash, last_height = agree_on_blockhash(chain.nodes, finality)
    token = Token(Pubkey.from_string(account.mint), Pubkey.from_string(account.program), asset.decimals)
    message = withdrawal_message(
        chain.signers,
        signing=(chain.signers.owner, chain.signers.relayer),
        fee_payer=chain.signers.owner,
        transfers=[Transfer(token, units, Pubkey.from_string(recipient))],
        memo=memo,
        blockhash=Hash.from_string(blockhash),
    )
    raw = sign_partially(message, [relayer_keypair(relayer_seed, 0)])
    return HandedOver(base64.b64encode(raw).decode(), last_height)
