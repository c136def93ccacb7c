"""Read from an EVM chain what a payment moved: the receipt of its transaction."""

from workshop.demo.chain_reader import Arrival, Claim

# keccak256("Transfer(address,address,uint256)"), the same for every ERC-20 token.
_TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
PROMISE = "one Transfer of exactly that amount on chain"


def find_arrival(claim: Claim) -> Arrival | None:
    """Add up what the transaction moved from the escrow to the payee; None: it is not on the chain."""
    receipt = claim.ask("eth_getTransactionReceipt", claim.tx)
    if receipt is None:
        return None
    topics = [_TRANSFER, _topic(claim.chain.escrow), _topic(claim.address)]
    units = sum(
        int(log["data"], 16)
        for log in receipt["logs"]
        if log["address"].lower() == claim.chain.tokens[claim.asset].lower() and log["topics"] == topics
    )
    block_number, status = int(receipt["blockNumber"], 16), receipt["status"]
    text = f"receipt {status} in block {block_number}, Transfer of {units:,} base units"
    return Arrival(text, is_exact=status == "0x1" and units == claim.units)


def _topic(address: str) -> str:
    return f"0x{address.lower().removeprefix('0x'):0>64}"
