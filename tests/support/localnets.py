"""Both embedded chains, the same for all tests."""

from collections.abc import Sequence

from tests.support.local_chain import Localnet
from tests.support.local_evm import EvmLocalnet
from tests.support.local_solana import SolanaLocalnet

EVM, SOLANA = EvmLocalnet(), SolanaLocalnet()
LOCALNETS: Sequence[Localnet] = (EVM, SOLANA)
