"""The nodes of the tests of the EVM adapter."""

from tests.chains.evm.conftest import make_node, node

__all__ = ["make_node", "node"]
