"""What else goes wrong on the Solana chain: transactions that expire, lies about slots, statuses and blockhashes."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from foundation.database import SIGNER_LOCK
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement
from tests.crash import solana_lies as lies
from tests.crash.faults import ChainFault, all_nodes_away, forgetful_nodes, lie_by_one, reorganise
from tests.crash.misbehaviour import Lie, forget
from tests.crash.processes import WORKERS
from tests.crash.rules import Rule
from tests.crash.solana_localnet import BLOCKHASH, SEND, SIGNATURES, STATUSES
from tests.crash.world import LET_GO, Network, World
from workshop.localnet.errors import LocalnetError

# More than a blockhash is good for.
_MANY_SLOTS = 200
_OUT = 3
_HEAD, _HEIGHT, _SLOT = "getEpochInfo", "getBlockHeight", "getSlot"
# What voids or signs anew on the EVM chain has locked a payment before; what renews on Solana has only read it.
_PAYMENT = "payments_payment"
_NO_SIGNING = f"SELECT pg_advisory_xact_lock({SIGNER_LOCK}, hashtext(''))"


def advance(network: Network) -> None:
    """Let so many slots pass at once that every blockhash expires."""
    network.localnet.ask("dev_advance", _MANY_SLOTS)


# --- Expiry -----------------------------------------------------------------------------------------------------------
@contextmanager
def _withheld(world: World, network: Network) -> Iterator[list[Settlement]]:
    """Have the nodes take transactions and forget them while the block runs; yields some that were taken."""
    rule = Rule("solana-localnet: both nodes take and forget, until all expires", forget(network.localnet), (SEND,))
    taken = Settlement.objects.filter(chain=network.localnet.caip2, state=SettlementState.BROADCAST)
    with network.misbehaving(rule):
        # What is older may have been sent on.
        rows = taken.filter(created_at__gt=utc_now())
        world.wait_until(lambda: rows.count() >= _OUT, "transactions are taken and forgotten")
        yield list(rows)


def _wait_until_signed_again(world: World, rows: Sequence[Settlement]) -> None:
    ended = Settlement.objects.filter(pk__in=[row.pk for row in rows], state=SettlementState.EXPIRED)
    world.wait_until(lambda: ended.count() == len(rows), "what expired is signed again")


def expiry(world: World, network: Network) -> str:
    """Let transactions expire that were never sent on, and offer them all the same, behind those that replace them."""
    with _withheld(world, network) as rows:
        advance(network)
        _wait_until_signed_again(world, rows)
    _offer_directly(network, rows)
    return f"{len(rows)} transactions expired and were signed again; the old ones were offered all the same"


def expiry_set_back(world: World, network: Network) -> str:
    """Have the database say that transactions expired which can still land; send them on when they were looked at."""
    with _withheld(world, network) as rows:
        height = network.localnet.ask(_HEIGHT)
        world.installation.execute(
            "UPDATE payments_settlement SET valid_until_height = %s WHERE tx = ANY (%s)",
            height,
            [row.tx for row in rows],
        )
        # Then each was judged more than once: what can still land must not be replaced.
        world.wait_until(partial(_is_past, network, height), "the height is past that is written down")
        _offer_directly(network, rows)
    return f"{len(rows)} transactions that seemed to have expired were sent all the same"


def _is_past(network: Network, height: int) -> bool:
    final: int = network.localnet.ask(_HEIGHT, {"commitment": "finalized"})
    # So many that the product has looked meanwhile.
    return final > height + 10


def _offer_directly(network: Network, rows: Sequence[Settlement]) -> None:
    for row in rows:
        # Whether the node takes it is its affair: at the end the chain tells what landed.
        with suppress(LocalnetError):
            raw = base64.b64encode(bytes(row.raw)).decode()
            network.localnet.ask(SEND, raw, {"encoding": "base64", "skipPreflight": True})


def worker_renewing(world: World, network: Network) -> str:
    """Kill a worker that has ended an expired transaction, and waits to sign the next one."""
    with ExitStack() as stack:
        # What voids would wait for the signer, too, with its payment's row locked, and others for that.
        stack.enter_context(world.thief.resting())
        lost = Payment.objects.filter(status=PaymentStatus.APPROVED, settlements__state=SettlementState.FAILED)
        world.wait_until(lambda: not lost.exclude(chain=network.localnet.caip2).exists(), "nothing is to be voided")
        stack.enter_context(_withheld(world, network))
        # So would payments, with their agent's row locked, and whatever gives back or credits for them.
        stack.enter_context(world.clients.resting())
        advance(network)
        with world.waiting(_NO_SIGNING, WORKERS, "%pg_advisory_xact_lock_shared", unlocked=_PAYMENT) as victim:
            world.house.kill(victim)
        world.house.again(victim)
        world.installation.execute(LET_GO)
    return f"{victim} killed with the old transaction ended, before the new one was signed"


SOLANA_KILL_POINTS: dict[str, ChainFault] = {"worker: renewing, old one ended": worker_renewing}


# --- Lies -------------------------------------------------------------------------------------------------------------
def _lie(name: str, told: dict[str, Lie], **options: Any) -> tuple[str, ChainFault]:
    return f"one node lies: {name}", lie_by_one(name, told, **options)


SOLANA_FAULTS: dict[str, ChainFault] = {
    "reorganisation, depth 1": reorganise(1),
    "reorganisation, depth 3": reorganise(3),
    "all nodes away": all_nodes_away,
    "nodes take transactions and forget them": forgetful_nodes,
    "transactions expire": expiry,
    "height of expiry set back in the database": expiry_set_back,
    **dict(
        [
            # Whoever is absent is as good as expired.
            _lie("no transaction landed", {STATUSES: lies.no_statuses}, meanwhile=advance),
            _lie(
                "no transaction landed, and all have expired", {STATUSES: lies.no_statuses, _HEAD: lies.moved_head(500)}
            ),
            _lie("every transaction is final", {STATUSES: lies.all_final()}),
            _lie("every transaction is final, while all expire", {STATUSES: lies.all_final()}, meanwhile=advance),
            _lie("every transaction failed long ago", {STATUSES: lies.all_failed}),
            _lie("success is failure, failure success", {STATUSES: lies.flipped}),
            _lie("slots and heights are 500 higher", {_HEAD: lies.moved_head(500), _SLOT: lies.moved(500)}),
            _lie("slots and heights are 20 lower", {_HEAD: lies.moved_head(-20), _SLOT: lies.moved(-20)}),
            _lie("blockhashes expire at once", {BLOCKHASH: lies.short_lived}, is_first=True, times=2),
            _lie("blockhashes never expire", {BLOCKHASH: lies.long_lived}, is_first=True, times=2),
            _lie("blockhashes of no block", {BLOCKHASH: lies.no_block}, is_first=True, times=2),
            _lie("no deposit was made", {SIGNATURES: lies.no_signatures}, times=3),
            _lie("each deposit was made twice", lies.doubled(), times=3),
        ]
    ),
}
