"""A small Solana node: one process, a slot every 400 ms, one SQLite file, JSON-RPC on loopback.

The machine behind it is LiteSVM with the features of the main network. It can be started alone:
`python -m workshop.localnet.solana --help`.
"""

# base58(sha256(b"allowance solana-localnet")): every local chain has it, no public one ever will.
GENESIS_HASH = "344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa7k6kgSVhUD4U"
