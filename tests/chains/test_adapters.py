"""The shape of the adapters: a record of parts, which adds nothing to them."""

from dataclasses import FrozenInstanceError, fields
from inspect import isfunction, ismethod

import pytest

from chains.evm.adapter import EvmChain
from chains.port import ChainAdapter
from chains.solana.adapter import SolanaChain
from tests.support.localnets import EVM, SOLANA

PARTS = {name for name, value in vars(ChainAdapter).items() if isinstance(value, property)}


@pytest.mark.parametrize("adapter", [EvmChain, SolanaChain])
def test_an_adapter_has_each_part_of_the_port_and_passes_no_call_on(adapter):
    assert {field.name for field in fields(adapter)} >= PARTS
    own = {name for name in vars(adapter) if not name.startswith("_")}
    assert {name for name in own if isfunction(getattr(adapter, name)) or ismethod(getattr(adapter, name))} == {"of"}


@pytest.mark.parametrize("localnet", [EVM, SOLANA])
def test_no_part_of_an_adapter_is_replaced_while_a_process_runs(localnet):
    with pytest.raises(FrozenInstanceError):
        localnet.adapter.preparer = None
