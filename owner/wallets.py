"""The account of a test network that customers' deposits and the relayers' gas money come from."""

import argparse
from collections.abc import Callable

from django.conf import settings
from django.core.management.base import CommandError

from chains.evm.adapter import EvmChain
from chains.port import ChainAdapter
from chains.solana.adapter import SolanaChain
from foundation.environment.casts import SECP256K1_KEY
from foundation.kernel.secrecy import Secret
from owner.evm.depositing import Wallet as EvmWallet
from owner.keys import deposit_key
from owner.solana.depositing import Wallet as SolanaWallet
from services.served_chains import served_chains


def open_wallet(chain: str, report: Callable[[str], None], key: bytes | None = None) -> EvmWallet | SolanaWallet:
    """Open the wallet of a key, or of DEPOSIT_KEY, on a served chain. `report` gets progress, never a secret.

    Raises:
        CommandError: the chain is no test network, or there is no key.
    """
    known = settings.CHAINS[chain].chain
    if not known.is_test:
        raise CommandError(
            f"{known.alias} is not a test network: there, money comes from wallets that nothing here knows."
        )
    try:
        secret = key or deposit_key()
    except ValueError as error:
        raise CommandError(str(error)) from error
    if secret is None:
        raise CommandError("DEPOSIT_KEY is not set. It is the key, in hex, of an account on the test network.")
    return make_wallet(served_chains()[chain], secret, report)


def make_wallet(adapter: ChainAdapter, secret: bytes, report: Callable[[str], None]) -> EvmWallet | SolanaWallet:
    """Make an account that has coins and deposits into the escrow. `report` gets progress messages, never a secret."""
    if isinstance(adapter, SolanaChain):
        return SolanaWallet(adapter, secret, report)
    if isinstance(adapter, EvmChain):
        return EvmWallet(adapter, secret, report)
    raise TypeError(f"There is no wallet for the adapter {type(adapter).__name__}.")


def read_key(text: str) -> Secret:
    """Read the key of an option; what it says of a text that is none does not repeat it."""
    try:
        return SECP256K1_KEY(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
