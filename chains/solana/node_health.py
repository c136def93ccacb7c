"""Ask a single node how it is: its chain, its newest and its final block."""

from chains.catalogue import ServedChain
from chains.port.node_health import NodeHealth
from chains.rpc.transport import Connection, NodeAway
from chains.solana.answers import FINALIZED, head_calls, read_hash, read_head

_HEADER = {"transactionDetails": "none", "rewards": False, "maxSupportedTransactionVersion": 0, **FINALIZED}


def read_health(node: Connection, served: ServedChain) -> NodeHealth:
    """Ask a node. The time of its newest block is that of its final one, which is some seconds older.

    Raises:
        NodeAway: it gives no usable answer, or is of another chain; says which.
    """
    genesis = node.read([("getGenesisHash",)], lambda answers: read_hash(answers[0]))
    reference = served.chain.reference
    if not genesis.startswith(reference):
        raise NodeAway(f"it is of the chain {genesis}, not of {reference}…")
    head = node.read(head_calls(), read_head)
    return NodeHealth(head.newest, head.time, head.final, head.time, has_state=True)


def read_block_hash(node: Connection, number: int) -> str:
    """Ask a node for the hash of one of its final blocks. Raises `NodeAway`."""
    return node.read([("getBlock", number, _HEADER)], lambda answers: read_hash(answers[0]["blockhash"]))
