"""PostgreSQL, Redis, an EVM chain and a Solana chain on this machine, without installing or configuring anything.

A tool of its own: it imports nothing of what uses it.

    python -m workshop.localnet --help     start, list and stop the servers
    python -m workshop.localnet.evm        one EVM node: py-evm, a block per second, JSON-RPC on loopback
    python -m workshop.localnet.solana     one Solana node: LiteSVM, a slot every 400 ms, JSON-RPC on loopback

PostgreSQL and Redis come from Python wheels. All data live in one folder: `.data` of the checkout, or the one that
EMBEDDED_DIR names. Each server is started detached; any number of processes claim the servers (`servers.starting`), and
the last of them that ends stops the servers. Chains survive restarts. For tests both nodes can reorganise their newest
blocks and move their clocks (`anvil_reorg`, `evm_increaseTime`, `dev_reorganise`, `dev_advance`).
"""
