"""The adapters of the chains that this deployment serves, one per process."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from chains.catalogue import Vm, find_chain
from chains.evm.adapter import EvmChain
from chains.evm.configuration_check import Roles
from chains.evm.derivation import address_of, derive_account
from chains.port import ChainAdapter
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import EscrowSigners, public_key
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused


@cache
def served_chains() -> dict[str, ChainAdapter]:
    """Make the adapters, by CAIP-2 id, without asking any node."""
    return {caip2: make_chain(caip2) for caip2 in settings.CHAINS}


def read_chain(name: str) -> str:
    """Read the CAIP-2 id of a served chain from an alias, or from itself.

    Raises:
        OperationRefused: it is not served.
    """
    chain = find_chain(name)
    if chain is None or chain.caip2 not in served_chains():
        raise OperationRefused(f"The chain {name} is not served here.")
    return chain.caip2


def read_known_chain(name: str) -> str:
    """Read the CAIP-2 id of a chain, served or not, from its name.

    Raises:
        OperationRefused: it is not known.
    """
    chain = find_chain(name)
    if chain is None:
        raise OperationRefused(f"There is no chain {name}.")
    return chain.caip2


def make_chain(caip2: str) -> EvmChain | SolanaChain:
    """Make the adapter of a chain that is configured."""
    is_evm = settings.CHAINS[caip2].chain.vm is Vm.EVM
    return evm_chain(caip2) if is_evm else solana_chain(caip2)


def evm_chain(caip2: str) -> EvmChain:
    """Make the adapter of an EVM chain that is configured."""
    validity = timedelta(seconds=settings.PAYMENT_VALIDITY_S)
    return EvmChain.of(
        settings.CHAINS[caip2],
        held_key("RELAYER_SEED"),
        settings.MAX_FEE_GWEI,
        policy_signer=_policy_signer(),
        validity=validity,
    )


def solana_chain(caip2: str) -> SolanaChain:
    """Make the adapter of a Solana chain that is configured."""
    served, seed = settings.CHAINS[caip2], held_key("RELAYER_SEED")
    if served.owner is None:
        raise ImproperlyConfigured(f"{served.chain.variables}_OWNER is not set.")
    signers = EscrowSigners.of(seed, public_key(held_key("POLICY_SIGNER_SOLANA_KEY")), served.owner)
    return SolanaChain.of(served, seed, signers, settings.MAX_PRIORITY_FEE_MICRO_LAMPORTS)


def find_solana_account(caip2: str, asset: Asset, state: Mapping[str, Any]) -> tuple[str, str] | None:
    """Derive the owner and the address of a Solana escrow's account for an asset; None: its mint was not seen yet.

    `state` is what the watcher last saw of the chain: it knows the program of the asset's mint.
    """
    adapter = served_chains()[caip2]
    program = state.get("tokens", {}).get(asset.value, {}).get("program")
    if not isinstance(adapter, SolanaChain) or not program:
        return None
    return adapter.signers.owner_and_account(adapter.served.tokens[asset], program)


def configured_roles() -> Roles:
    """Derive the roles of a new escrow: our policy signer, and every relayer."""
    return Roles(_policy_signer(), tuple(map(_relayer, range(settings.RELAYERS_PER_CHAIN))))


def _policy_signer() -> str:
    return address_of(held_key("POLICY_SIGNER_SECP256K1_KEY"))


def _relayer(number: int) -> str:
    return derive_account(held_key("RELAYER_SEED"), number)[1]
