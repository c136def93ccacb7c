"""The keys of an escrow's owner, and of wallets of test networks, which no server reads: here, when they are needed."""

from foundation.environment.configuration import Configuration
from foundation.kernel.secrecy import Secret


def read_optional_key(name: str) -> Secret | None:
    """Read a key that need not be set, by its row of the table of settings; None: it is not set.

    Raises:
        ValueError: it is set and is not a key; the message does not repeat it.
    """
    configuration = Configuration()
    key: Secret | None = configuration.read(name)
    if configuration.problems:
        raise ValueError(" ".join(configuration.problems))
    return key


def deployer_key() -> Secret | None:
    """Read the key of the account that deploys escrows on EVM chains, which may own them, too. Raises `ValueError`."""
    return read_optional_key("DEPLOYER_KEY")


def deposit_key() -> Secret | None:
    """Read the key of the account of a test network that deposits, and gives gas money. Raises `ValueError`."""
    return read_optional_key("DEPOSIT_KEY")
