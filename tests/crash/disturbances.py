"""What else goes wrong: reorganisations, lying and absent nodes, nonces that are not what we think."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings

from allowance.embedded.evm.node import FINALITY_BLOCKS
from payments.chains.evm.accounts import derive_account
from payments.chains.evm.transactions import Fees, sign_call
from payments.models import Relayer, Settlement
from tests.chains import LOCALNET, rpc
from tests.crash import misbehaviour as lies
from tests.crash.depositor import CHAIN_ID
from tests.crash.installation import wait_until
from tests.crash.misbehaviour import BLOCK, CALL, COUNT, LOGS, RECEIPT, SEND, Lie, forget, lose_request, lying
from tests.crash.proxy import Proxy
from tests.crash.rules import Dropped, Rule
from tests.crash.world import World

_GWEI = 10**9
# A lie lasts until it was told so often, and so many payments were approved meanwhile.
_TIMES = 8
_APPROVALS = 6
Fault = Callable[[World], str]


# --- The chain --------------------------------------------------------------------------------------------------------
def reorganise(depth: int) -> Fault:
    """Replace blocks that hold payments; their transactions vanish, or wait for a block again."""

    def inject(world: World) -> str:
        removed = wait_until(_newest_transactions, "a block with payments is made")
        keeps = world.chance.random() < 0.5
        rpc("anvil_reorg", depth, [], keeps)
        return f"{depth} blocks replaced; {removed} transactions or more {'waited again' if keeps else 'vanished'}"

    return inject


def _newest_transactions() -> int:
    return len(rpc("eth_getBlockByNumber", "latest", False)["transactions"])


def all_nodes_away(world: World) -> str:
    rule = Rule("both nodes away", lose_request)
    with world.misbehaving(world.proxies, rule):
        world.wait_for_approvals(3)
        wait_until(lambda: world.shown(rule) > 0, "somebody misses the nodes")
    return "3 payments approved meanwhile"


def forgetful_nodes(world: World) -> str:
    rule = Rule("both nodes take and forget", forget(), (SEND,))
    before = world.shown(rule)
    with world.misbehaving(world.proxies, rule):
        wait_until(lambda: world.shown(rule) > before + 2, "transactions are sent")
    return "what was taken meanwhile was sent again"


# --- One lying node ---------------------------------------------------------------------------------------------------
def _final_block() -> dict[str, Any]:
    found: dict[str, Any] = rpc("eth_getBlockByNumber", "finalized", False)
    return found


def _latest_block(_tag: str) -> Any:
    return rpc("eth_getBlockByNumber", "latest", False)


def _old_block(tag: str) -> Any:
    number = int(rpc("eth_getBlockByNumber", tag, False)["number"], 16)
    return rpc("eth_getBlockByNumber", hex(max(0, number - 5)), False)


_LIES: dict[str, dict[str, Lie]] = {
    "finalized is the newest block": {BLOCK: lies.other_block("finalized", _latest_block)},
    "settled() is the opposite": {CALL: lies.flipped_settled},
    "no deposit was made": {LOGS: lies.no_logs},
    "each deposit was made twice": {LOGS: lies.doubled_logs},
    "nonces are 3 higher": {COUNT: lies.moved_count(3)},
    "every transaction failed long ago": {
        RECEIPT: lies.early_failure(_final_block),
        COUNT: lies.moved_count(3),
    },
    "no receipts": {RECEIPT: lies.no_receipt},
    "receipts of no block": {RECEIPT: lies.receipt_of_no_block},
    "success is failure, failure success": {RECEIPT: lies.flipped_status},
    "nonces are 3 lower": {COUNT: lies.moved_count(-3)},
    "the head is 5 blocks old": {BLOCK: lies.other_block("latest", _old_block)},
    "finalized is 5 blocks older": {BLOCK: lies.other_block("finalized", _old_block)},
}


def lie_by_one(name: str, told: Mapping[str, Lie]) -> Fault:
    """Let one node lie about methods for a while, and the other be away now and then."""

    def inject(world: World) -> str:
        # The first node is asked first, and about receipts alone.
        liar, honest = world.proxies if RECEIPT in told else world.chance.sample(list(world.proxies), k=2)
        rule = Rule(f"a node lies: {name}", lying(told), tuple(told))
        before = world.shown(rule)
        with _truthful(honest), world.misbehaving([liar], rule):
            # While the other node is away little is asked: nothing is final by one node's word.
            wait_until(lambda: world.shown(rule) >= before + _TIMES, f"somebody hears: {name}", patience_s=240)
            world.wait_for_approvals(_APPROVALS)
        return f"node {world.proxies.index(liar) + 1} lied"

    return inject


def _truthful(honest: Proxy) -> Any:
    def pass_on(request: Any, forward: Any, chance: random.Random) -> Any:
        if chance.random() < 0.2:
            raise Dropped
        return forward(request)

    # In front of all other rules: nothing else happens to this node's messages.
    return honest.rules(Rule("", pass_on))


# --- Nonces -----------------------------------------------------------------------------------------------------------
def nonce_moved(by: int) -> Fault:
    """Set a relayer's next nonce back or forward behind the product's back."""

    def inject(world: World) -> str:
        number = world.chance.randrange(Relayer.objects.count())
        world.installation.execute(
            "UPDATE payments_relayer SET next_nonce = greatest(0, next_nonce + %s) WHERE number = %s", by, number
        )
        return f"relayer {number}"

    return inject


def foreign_transaction(world: World) -> str:
    """Use a relayer's key elsewhere, for a nonce that a signed payment waits for."""
    with world.frozen_workers():
        row = wait_until(_next_in_line, "a payment waits that is its relayer's next")
        key, address = derive_account(settings.RELAYER_SEED, row.relayer.number)
        tx, raw = sign_call(
            key,
            chain_id=CHAIN_ID,
            nonce=row.nonce,
            to=bytes.fromhex(address.removeprefix("0x")),
            data=b"",
            fees=Fees(30_000, 500 * _GWEI, 100 * _GWEI),
        )
        rpc("eth_sendRawTransaction", "0x" + raw.hex())
        wait_until(lambda: rpc("eth_getTransactionReceipt", tx), "the foreign transaction is in a block")
    return f"nonce {row.nonce} of relayer {row.relayer.number} taken from a payment"


def _next_in_line() -> Settlement | None:
    for relayer in Relayer.objects.filter(chain=LOCALNET):
        nonce = int(rpc("eth_getTransactionCount", relayer.address, "pending"), 16)
        row = Settlement.objects.filter(relayer=relayer, nonce=nonce, state="signed", offered_at=None).first()
        if row is not None:
            return row
    return None


DISTURBANCES: dict[str, Fault] = {
    "reorganisation, depth 1": reorganise(1),
    "reorganisation, depth 2": reorganise(FINALITY_BLOCKS),
    "all nodes away": all_nodes_away,
    "nodes take transactions and forget them": forgetful_nodes,
    "next nonce set back in the database": nonce_moved(-2),
    "next nonce set forward in the database": nonce_moved(3),
    "a relayer's key is used elsewhere": foreign_transaction,
    **{f"one node lies: {name}": lie_by_one(name, told) for name, told in _LIES.items()},
}
