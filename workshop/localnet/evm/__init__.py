"""A small EVM node: one process, one block per second, one SQLite file, JSON-RPC on loopback.

The chain behind it is py-evm with the Prague rules. It can be started alone: `python -m workshop.localnet.evm --help`.
"""

# The number that development chains use: wallets and libraries know that nothing signed for it
# has any worth on a public chain.
CHAIN_ID = 31_337
