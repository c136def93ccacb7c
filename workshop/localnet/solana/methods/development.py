"""Methods that no public node has, for tests."""

from collections.abc import Mapping
from typing import Any

from solders.account import Account

from workshop.localnet.jsonrpc.errors import InvalidParams
from workshop.localnet.jsonrpc.protocol import Method
from workshop.localnet.solana import params
from workshop.localnet.solana.chain import FINALITY_BLOCKS
from workshop.localnet.solana.machine import NO_RENT_EPOCH
from workshop.localnet.solana.node import Node

_MAX_DATA_BYTES = 10 * 1024 * 1024
_MAX_SLOTS = 10_000_000


def _next_block(node: Node) -> int:
    """Make the next block now from what waits; time moves along. Returns its slot."""
    node.next_block()
    return node.chain.bank("processed").slot


def _advance(node: Node, slots: Any) -> int:
    """Let slots pass without a transaction, whatever waits; time moves along. Returns the newest block's slot."""
    node.advance(params.whole_number(slots, most=_MAX_SLOTS))
    return node.chain.bank("processed").slot


def _reorganise(node: Node, depth: Any, keeps_transactions: Any = False) -> None:  # noqa: FBT002 - the API's
    """Replace the newest blocks by empty ones. Their transactions vanish, or wait for a block again."""
    most = node.chain.height - node.chain.bank("finalized").height
    blocks = params.whole_number(depth)
    if not 1 <= blocks <= most:
        raise InvalidParams(f"invalid depth {blocks}: of at most {FINALITY_BLOCKS} blocks {most} are not final")
    node.reorganise(blocks, keeps_transactions=keeps_transactions is True)


def _set_account(node: Node, address: Any, account: Any = None) -> None:
    """Overwrite an account, given as `getAccountInfo` shows it with base64; at every commitment. None removes it."""
    node.chain.state.overwrite(params.pubkey(address), None if account is None else _account(params.config(account)))


def _account(given: dict[str, Any]) -> Account:
    match given.get("data", ["", "base64"]):
        case [text, "base64"]:
            data = params.data(text, "base64", most=_MAX_DATA_BYTES)
        case _:
            raise InvalidParams('the data must be [text, "base64"]')
    return Account(
        lamports=params.whole_number(given.get("lamports")),
        data=data,
        owner=params.pubkey(given.get("owner")),
        executable=given.get("executable") is True,
        rent_epoch=params.whole_number(given.get("rentEpoch", NO_RENT_EPOCH)),
    )


METHODS: Mapping[str, Method] = {
    "dev_nextBlock": _next_block,
    "dev_advance": _advance,
    "dev_reorganise": _reorganise,
    "dev_setAccount": _set_account,
}
