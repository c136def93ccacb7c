"""Check variables by what reads them when a process starts."""

from collections.abc import Mapping

from chains.catalogue import Chain, ServedChain, find_chain
from chains.chain_settings import KNOWN, VARIABLES, read_chains
from foundation.environment.configuration import Configuration
from foundation.environment.missing_escrows import leave_out_missing_escrows
from foundation.environment.table import SETTINGS
from operators.setup.env_file import line_of


def find_problems(values: Mapping[str, str]) -> list[str]:
    """Say what is wrong with variables, and never their values. A chain's escrow may be missing.

    What single commands alone read is checked by them.
    """
    configuration = Configuration(variables=values)
    for setting in SETTINGS:
        if setting.name in values and setting.holders:
            configuration.read(setting.name)
    if VARIABLES & values.keys():
        read_chains(configuration)
    configuration.refuse_unknown_names(KNOWN)
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
