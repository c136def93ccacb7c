"""The ids of the embedded chains."""

LOCALNET = "eip155:31337"
SOLANA_LOCALNET = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
