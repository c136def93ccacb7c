"""The adapters of the chains that this deployment serves, one per process."""

from functools import cache

from django.conf import settings

from payments.chains.base import ChainAdapter
from payments.chains.evm import EvmChain
from services.chains import Vm


@cache
def served_chains() -> dict[str, ChainAdapter]:
    """Make the adapters, by CAIP-2 id; asks no node."""
    return {
        caip2: EvmChain(served, settings.RELAYER_SEED)
        for caip2, served in settings.CHAINS.items()
        if served.chain.vm is Vm.EVM
    }
