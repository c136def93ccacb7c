"""The account of a test network that customers' deposits and the relayers' gas money come from."""

import argparse
from collections.abc import Callable

from django.conf import settings
from django.core.management.base import CommandError

from chains.evm.depositing import Wallet as EvmWallet
from chains.solana.depositing import Wallet as SolanaWallet
from foundation.environment.casts import SECP256K1_KEY
from foundation.environment.keys import held_key
from foundation.kernel.secrecy import Secret
from services.served_chains import make_wallet, served_chains


def open_wallet(chain: str, report: Callable[[str], None], key: bytes | None = None) -> EvmWallet | SolanaWallet:
    """Open the wallet of a key, or of DEPOSIT_KEY, on a served chain.

    Raises:
        CommandError: the chain is no test network, or there is no key.
    """
    known = settings.CHAINS[chain].chain
    if not known.is_test:
        raise CommandError(
            f"{known.alias} is not a test network: there, money comes from wallets that nothing here knows."
        )
    if key is None and settings.DEPOSIT_KEY is None:
        raise CommandError("DEPOSIT_KEY is not set. It is the key, in hex, of an account on the test network.")
    return make_wallet(served_chains()[chain], key or held_key("DEPOSIT_KEY"), report)


def read_key(text: str) -> Secret:
    """Read the key of an option; what it says of a text that is none does not repeat it."""
    try:
        return SECP256K1_KEY(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
