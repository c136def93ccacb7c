"""Check variables by what reads them when a process starts."""

from collections.abc import Callable, Mapping
from functools import partial

from chains.catalogue import Chain, ServedChain, find_chain
from chains.chain_settings import VARIABLES, read_chains
from foundation.environment.configuration import SECP256K1_ORDER, Configuration
from foundation.environment.missing_escrows import leave_out_missing_escrows
from foundation.environment.notices import read_base_url
from foundation.environment.web_values import read_hosts
from operators.setup.env_file import line_of


def _key(configuration: Configuration, name: str, length: int = 32, below: int | None = None) -> None:
    configuration.key(name, length, below=below)


_READERS: dict[str, Callable[[Configuration, str], object]] = {
    "DATABASE_URL": Configuration.database,
    "REDIS_URL": Configuration.redis,
    "ALLOWED_HOSTS": lambda configuration, name: configuration.read(name, read_hosts, list[str]()),
    "CONSOLE_URL": lambda configuration, name: configuration.read(name, read_base_url, ""),
    "POLICY_SIGNER_ED25519_KEY": _key,
    "POLICY_SIGNER_SECP256K1_KEY": partial(_key, below=SECP256K1_ORDER),
    "POLICY_SIGNER_SOLANA_KEY": _key,
    "RELAYER_SEED": partial(_key, length=64),
    "WEBHOOK_SIGNING_KEY": _key,
    "WEBHOOK_SECRETS_KEY": _key,
}


def find_problems(values: Mapping[str, str]) -> list[str]:
    """Say what is wrong with variables, and never their values. A chain's escrow may be missing."""
    configuration = Configuration(variables=values)
    for name, read in _READERS.items():
        if name in values:
            read(configuration, name)
    if VARIABLES & values.keys():
        read_chains(configuration)
    for name, value in values.items():
        try:
            line_of(name, value)
        except ValueError as error:
            configuration.problems.append(str(error))
    return leave_out_missing_escrows(configuration.problems)


def find_served(values: Mapping[str, str]) -> list[ServedChain]:
    """List the chains that variables serve."""
    return [*read_chains(Configuration(variables=values)).values()]


def chain_named(name: str) -> Chain:
    """Find a chain by its alias or CAIP-2 id.

    Raises:
        ValueError: there is none.
    """
    chain = find_chain(name.strip())
    if chain is None:
        raise ValueError(f"There is no chain {name}.")
    return chain
