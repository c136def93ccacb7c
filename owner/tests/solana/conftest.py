"""The nodes of the tests of the Solana adapter."""

from tests.chains.solana.conftest import node, nodes, truth

__all__ = ["node", "nodes", "truth"]
