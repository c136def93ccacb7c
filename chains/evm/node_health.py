"""Ask a single node how it is: its chain, its newest and its final block, and whether it keeps the state of that."""

from contextlib import suppress

from chains.catalogue import ServedChain
from chains.evm.answers import read_block, read_count, read_hash
from chains.evm.heads import block_call
from chains.port.node_health import NodeHealth
from chains.rpc.transport import Connection, NodeAway, RpcError


def read_health(node: Connection, served: ServedChain) -> NodeHealth:
    """Ask a node.

    Raises:
        NodeAway: it gives no usable answer, or is of another chain; says which.
    """
    chain_id = node.read([("eth_chainId",)], lambda answers: read_count(answers[0]))
    if chain_id != served.chain.chain_id:
        raise NodeAway(f"it is of chain {chain_id}, not of {served.chain.chain_id}")
    newest = node.read([block_call("latest")], lambda answers: read_block(answers[0]))
    depth = served.finality_depth
    final = None
    with suppress(NodeAway):  # it does not know which block is final
        tag = "finalized" if depth is None else hex(max(0, newest.number - depth))
        final = node.read([block_call(tag)], lambda answers: read_block(answers[0]))
    if final is None:
        return NodeHealth(newest.number, newest.time, None, None, has_state=False)
    (code,) = node.ask([("eth_getCode", served.escrow, hex(final.number))])
    return NodeHealth(newest.number, newest.time, final.number, final.time, has_state=not isinstance(code, RpcError))


def read_block_hash(node: Connection, number: int) -> str:
    """Ask a node for the hash of one of its blocks. Raises `NodeAway`."""
    return node.read([block_call(hex(number))], lambda answers: read_hash(answers[0]["hash"]))
