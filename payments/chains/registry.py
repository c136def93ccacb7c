"""The adapters of the chains that this deployment serves, one per process."""

from functools import cache, partial

from django.conf import settings

from payments.chains.base import ChainAdapter
from payments.chains.evm.accounts import address_of, derive_account
from payments.chains.evm.adapter import EvmChain
from payments.chains.evm.findings import Roles
from payments.models import Relayer
from services.chains import Vm


@cache
def served_chains() -> dict[str, ChainAdapter]:
    """Make the adapters, by CAIP-2 id; asks no node."""
    return {caip2: evm_chain(caip2) for caip2, served in settings.CHAINS.items() if served.chain.vm is Vm.EVM}


def evm_chain(caip2: str) -> EvmChain:
    """Make the adapter of an EVM chain that is configured."""
    return EvmChain(settings.CHAINS[caip2], settings.RELAYER_SEED, settings.MAX_FEE_GWEI, partial(_find_roles, caip2))


def configured_roles() -> Roles:
    """Derive whom a new escrow must know: our policy signer, and every relayer."""
    return Roles(_policy_signer(), tuple(map(_relayer, range(settings.RELAYERS_PER_CHAIN))))


def _find_roles(caip2: str) -> Roles:
    """Leave out the relayers that are switched off here: whoever disables one on the escrow does that first."""
    known = dict(Relayer.objects.filter(chain=caip2).values_list("number", "is_enabled"))
    numbers = sorted({*range(settings.RELAYERS_PER_CHAIN), *known})
    return Roles(_policy_signer(), tuple(_relayer(number) for number in numbers if known.get(number, True)))


def _policy_signer() -> str:
    return address_of(settings.POLICY_SIGNER_SECP256K1_KEY)


def _relayer(number: int) -> str:
    return derive_account(settings.RELAYER_SEED, number)[1]
