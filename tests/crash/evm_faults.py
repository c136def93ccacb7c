"""What else goes wrong on the EVM chain: lies about receipts, blocks and events; nonces that are not what we think."""

from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from eth_utils.crypto import keccak

from chains.evm.derivation import derive_account
from chains.evm.eip1559 import Fees, sign_call
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from tests.crash import evm_lies as lies
from tests.crash.deadlines import FAR_AHEAD_S
from tests.crash.evm_localnet import BLOCK, CALL, CHAIN_ID, COUNT, LOGS, RECEIPT, SEND, evm_rpc
from tests.crash.faults import ChainFault, all_nodes_away, forgetful_nodes, lie_by_one, reorganise, wait_until_observed
from tests.crash.installation import wait_until
from tests.crash.misbehaviour import Lie, forget
from tests.crash.rules import Rule
from tests.crash.world import Network, World
from tests.support import kills
from workshop.localnet.errors import LocalnetError
from workshop.localnet.evm.node import FINALITY_BLOCKS

_GWEI = 10**9
_BEHIND = 8
# Shorter than what was observed stays fresh.
_STANDSTILL_S = 15
_PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]


# --- Lies -------------------------------------------------------------------------------------------------------------
def _final_block() -> dict[str, Any]:
    found: dict[str, Any] = evm_rpc(BLOCK, "finalized", False)
    return found


def _latest_block(_tag: str) -> Any:
    return evm_rpc(BLOCK, "latest", False)


def _old_block(tag: str) -> Any:
    number = int(evm_rpc(BLOCK, tag, False)["number"], 16)
    return evm_rpc(BLOCK, hex(max(0, number - 5)), False)


_LIES: dict[str, dict[str, Lie]] = {
    "finalized is the newest block": {BLOCK: lies.other_block("finalized", _latest_block)},
    "status() is the opposite": {CALL: lies.flipped_payment},
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


# --- Nonces -----------------------------------------------------------------------------------------------------------
def nonce_moved(by: int) -> ChainFault:
    """Set a relayer's next nonce back or forward behind the product's back."""

    def inject(world: World, network: Network) -> str:
        relayer = world.chance.choice(Relayer.objects.filter(chain=network.localnet.caip2))
        world.installation.execute(
            "UPDATE payments_relayer SET next_nonce = greatest(0, next_nonce + %s) WHERE id = %s", by, relayer.pk
        )
        return f"relayer {relayer.number}"

    return inject


def foreign_transaction(world: World, network: Network) -> str:
    """Use a relayer's key elsewhere, for a nonce that a signed payment waits for."""
    # The thief does just that, so often that no payment would be left whose turn it is.
    with world.thief.resting():
        world.wait_until(partial(_has_caught_up, network.localnet.caip2), "the nonces of a relayer are known")
        taken = partial(_take_nonce, world, network)
        return str(world.wait_until(taken, "a payment waits that is its relayer's next"))


def _take_nonce(world: World, network: Network) -> str:
    """Use up the nonce of a payment; tells which, or returns nothing if none comes that is its relayer's next.

    While workers stand still, nothing is observed, so that after some time nothing is approved any more; and one of
    them may stand still between the record that a payment is sent and the sending.
    """
    wait_until_observed(world, network)
    with world.frozen_workers():
        try:
            row = kills.wait_until(partial(_next_in_line, network.localnet.caip2), "there is one", _STANDSTILL_S)
        except TimeoutError:
            return ""
        key, address = derive_account(settings.RELAYER_SEED, row.relayer.number)
        tx, raw = sign_call(
            key,
            chain_id=CHAIN_ID,
            nonce=row.nonce,
            to=bytes.fromhex(address.removeprefix("0x")),
            data=b"",
            fees=Fees(30_000, 500 * _GWEI, 100 * _GWEI),
        )
        evm_rpc(SEND, "0x" + raw.hex())
        wait_until(lambda: evm_rpc(RECEIPT, tx), "the foreign transaction is in a block")
    return f"nonce {row.nonce} of relayer {row.relayer.number} taken from a payment"


def _has_caught_up(chain: str) -> bool:
    relayers = Relayer.objects.filter(chain=chain)
    return any(int(evm_rpc(COUNT, one.address, "pending"), 16) <= (one.next_nonce or 0) for one in relayers)


def _next_in_line(chain: str) -> Settlement | None:
    for relayer in Relayer.objects.filter(chain=chain):
        nonce = int(evm_rpc(COUNT, relayer.address, "pending"), 16)
        row = Settlement.objects.filter(relayer=relayer, nonce=nonce, state="signed", offered_at=None).first()
        if row is not None:
            return row
    return None


# --- The end ----------------------------------------------------------------------------------------------------------
def never_gets_in(world: World, network: Network) -> str:
    """Have nodes take a payment and forget it, whatever its fee, until it has expired; others queue behind it.

    What expired is signed again. Once the chain's clock is far ahead, that has expired, too, as soon as it is signed;
    what reverts is lost, and given back past its deadline.
    """
    agent, localnet = network.agents[0], network.localnet
    with ExitStack() as stack:
        name = "evm-localnet: a node takes a payment and forgets it"
        any_payment = Rule(name, forget(localnet, _PAY), (SEND,))
        with network.misbehaving(any_payment):
            first = world.clients.pay(agent, world.chance).payment_id
            world.wait_until(lambda: network.shown(any_payment) > 0, "it is sent")
            stack.enter_context(network.misbehaving(Rule(name, forget(localnet, _id_of(first)), (SEND,))))
        others = [world.clients.pay(agent, world.chance).payment_id for _ in range(_BEHIND)]
        relayer = Settlement.objects.filter(payments=first)[0].relayer
        elsewhere = Payment.objects.filter(pk__in=others).exclude(settlements__relayer=relayer)
        _wait_until_none(world, elsewhere.exclude(status=PaymentStatus.SETTLED), "those of the other relayers settle")
        evm_rpc("evm_increaseTime", FAR_AHEAD_S)
        for _ in range(1 + FINALITY_BLOCKS):
            evm_rpc("evm_mine")
        expired = Settlement.objects.filter(payments=first, state=SettlementState.EXPIRED)
        signed = Settlement.objects.filter(payments=first, state__in=OPEN_STATES)
        world.wait_until(lambda: expired.exists() and signed.exists(), "it has expired and is signed again")
    world.wait_until(partial(_revert, world, first), "it reverts")
    under_way = Payment.objects.filter(pk__in=[first, *others], status=PaymentStatus.APPROVED)
    _wait_until_none(world, under_way, "it fails, and those behind it do")
    failed = Payment.objects.filter(pk__in=[first, *others], status=PaymentStatus.FAILED)
    reasons = Counter(failed.values_list("failure_reason", flat=True))
    return "; ".join(f"{count} given back: {reason}" for reason, count in reasons.items())


def _revert(world: World, payment_id: str) -> bool:
    """Have the newest transaction of an expired payment revert before a worker calls it expired, too."""
    with world.frozen_workers(), suppress(LocalnetError):
        row = Settlement.objects.filter(payments=payment_id, state__in=OPEN_STATES).first()
        if row is None:
            return False
        with suppress(LocalnetError):  # it may be there already
            evm_rpc(SEND, f"0x{bytes(row.raw).hex()}")
        for _ in range(1 + FINALITY_BLOCKS):
            evm_rpc("evm_mine")
        return bool(evm_rpc(RECEIPT, row.tx))
    return False


def _id_of(payment_id: str) -> bytes:
    return bytes.fromhex(Payment.objects.get(pk=payment_id).escrow_id.removeprefix("0x"))


def _wait_until_none(world: World, payments: "QuerySet[Payment]", what: str) -> None:
    world.wait_until(lambda: not payments.exists(), what)


EVM_FAULTS: dict[str, ChainFault] = {
    "reorganisation, depth 1": reorganise(1),
    "reorganisation, depth 2": reorganise(FINALITY_BLOCKS),
    "all nodes away": all_nodes_away,
    "nodes take transactions and forget them": forgetful_nodes,
    "next nonce set back in the database": nonce_moved(-2),
    "next nonce set forward in the database": nonce_moved(3),
    "a relayer's key is used elsewhere": foreign_transaction,
    # The first node is asked first, and about receipts alone.
    **{f"one node lies: {name}": lie_by_one(name, told, is_first=RECEIPT in told) for name, told in _LIES.items()},
}
