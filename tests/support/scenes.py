"""A stage for settlement: an agent that pays a payee on a fake chain of their own, step by step."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from chains.port import Submitter
from ledger.models import BalanceMovement
from payments.lifecycle import OPEN_STATES
from payments.models import ChainState, Payment, Relayer, Settlement, Transition
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.next_states import HEIGHT_MARGIN
from payments.settling.relayers import refresh_relayers
from payments.settling.stuck_transactions import raise_stuck_fees
from payments.settling.transaction_rows import TransactionRow, read_rows
from payments.settling.unpaid import resolve_unpaid
from services.models import WebhookEvent
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.payment_requests import make_service_on, pay_on

HOUR = timedelta(hours=1)


class Scene:
    """An agent that pays a service on a chain of their own: one like the EVM's, or without nonces, one like Solana."""

    def __init__(self, relayers: int = 1, *, has_nonces: bool = True, **agent: Any) -> None:
        self.chain = make_fake_chain(relayers, has_nonces=has_nonces)
        self.agent = make_agent(**({"daily_limit": "1000", "weekly_limit": "1000"} | agent))
        self.service = make_service_on(self.chain, webhook_url="https://payee.example/hook")

    def pay(self, amount: str = "1.00", now: datetime | None = None) -> Payment:
        return pay_on(self.chain, self.agent, self.service, amount, now)

    def broadcast(self) -> int:
        return broadcast(self.chain.name, self.chain)

    def confirm(self) -> int:
        """Do what the sweep and the watcher of the escrow do; returns how many transactions came to an end meanwhile.

        Whoever ended them: where several do this at once, count `ends`.
        """
        ended = Settlement.objects.filter(chain=self.chain.name).exclude(state__in=OPEN_STATES)
        before = ended.count()
        self.follow()
        return ended.count() - before

    def follow(self) -> None:
        """Do what the sweep and the watcher of the escrow do."""
        if self.chain.has_nonces:
            confirm(self.chain.name, self.chain)
        search_history(self.chain.name, self.chain)
        if not self.chain.has_nonces:
            confirm(self.chain.name, self.chain)
        resolve_unpaid(self.chain.name, self.chain)

    def void(self, payment: Payment) -> None:
        """Have the escrow void a lost payment, as it was asked to, in a final block, and notice."""
        assert self.chain.has_nonces
        self.give_back(payment)

    def make_unpayable(self, *payments: Payment) -> None:
        """Let the chain be unable to pay what was lost on it: void, or, without nonces, past all that was signed."""
        if self.chain.has_nonces:
            self.broadcast()
        for payment in payments:
            if self.chain.has_nonces:
                self.chain.include(void_of(payment))
            else:
                self.pass_deadline(payment)

    def give_back(self, *payments: Payment) -> None:
        """Let payments whose transactions failed in final blocks, which was noticed, be given back."""
        self.make_unpayable(*payments)
        self.confirm()

    def tend(self) -> None:
        refresh_relayers(self.chain.name, self.chain, {})

    def raise_fees(self) -> int:
        return raise_stuck_fees(self.chain.name, self.chain, {})

    def pay_and_send(self, amount: str = "1.00", now: datetime | None = None) -> Payment:
        payment = self.pay(amount, now)
        self.broadcast()
        return payment

    def observe(self) -> None:
        """Let the watcher look at the chain: what is signed from now on, is signed by what it sees."""
        observe(self.chain.name, self.chain)

    def let_pass(self, time: timedelta) -> None:
        """Let what was offered and what changed have been so much earlier."""
        rows = Settlement.objects.filter(chain=self.chain.name)
        rows.update(offered_at=F("offered_at") - time, changed_at=F("changed_at") - time)

    def bump(self) -> None:
        """Let the head of the line be stuck, put it in with a higher fee, and send it."""
        self.let_pass(HOUR / 2)
        assert self.raise_fees() == 1
        self.broadcast()

    def reach_deadline(self, payment: Payment) -> None:
        """Let the chain be as far as it can be and still take the newest transaction of a payment."""
        row = transaction_of(payment)
        if row.valid_until_height is not None:
            self.chain.finalise(row.valid_until_height)
        elif row.valid_until is not None:
            self.chain.reach(row.valid_until)

    def pass_deadline(self, payment: Payment) -> None:
        """Let the chain be past what it takes the newest transaction of a payment by."""
        self.reach_deadline(payment)
        if self.chain.has_nonces:
            self.chain.reach(self.chain.finality.time + timedelta(seconds=1))
        else:
            self.chain.finalise(self.chain.finality.block_number + 1 + HEIGHT_MARGIN)

    def expire(self, payment: Payment) -> None:
        """Let the deadline of a payment pass on the chain, and notice."""
        self.pass_deadline(payment)
        assert self.confirm() == 1

    def fillers(self) -> list[Settlement]:
        return list(
            Settlement.objects.filter(chain=self.chain.name, first_payment=None).order_by("nonce", "created_at")
        )

    def relayer(self, number: int = 0) -> Relayer:
        return Relayer.objects.get(chain=self.chain.name, number=number)

    def skip_nonce(self) -> None:
        """Let a nonce of each relayer be given out for which there is no transaction, as no path of ours does."""
        with transaction.atomic():
            # Locked in one order: those who skip at once would otherwise each have a row that the other one waits for.
            locked = Relayer.objects.filter(chain=self.chain.name).order_by("pk").select_for_update(no_key=True)
            Relayer.objects.filter(pk__in=[one.pk for one in locked]).update(next_nonce=F("next_nonce") + 1)

    def use_elsewhere(self, settlement: Settlement) -> None:
        """Let a transaction that we do not know use the nonce of one of ours, in a final block."""
        address = settlement.relayer.address
        self.chain.mined[address] = self.chain.final_nonces[address] = (settlement.nonce or 0) + 1

    def ends(self) -> int:
        """Count how often a transaction came to an end, as it was recorded."""
        ends = Transition.objects.filter(settlement__chain=self.chain.name).exclude(new__in=OPEN_STATES)
        return ends.count()

    def stopped_reason(self) -> str:
        return ChainState.objects.get(pk=self.chain.name).stopped_reason

    def events(self) -> list[str]:
        return list(WebhookEvent.objects.filter(service=self.service).order_by("id").values_list("type", flat=True))

    def returns(self) -> Any:
        return BalanceMovement.objects.filter(agent=self.agent, kind="return")


def transactions_of(payment: Payment) -> list[Settlement]:
    """List the transactions that were to make a payment, oldest first."""
    return list(Settlement.objects.filter(payments=payment, is_void=False).order_by("created_at"))


def void_of(payment: Payment) -> Settlement:
    """Read the newest transaction that is to void a payment."""
    return Settlement.objects.filter(payments=payment, is_void=True).latest("created_at")


def transaction_of(payment: Payment) -> Settlement:
    """Read the newest transaction of a payment."""
    return transactions_of(payment)[-1]


def deadline_of(payment: Payment) -> datetime:
    """Read until when the chain accepts a payment."""
    deadline = transaction_of(payment).valid_until
    assert deadline is not None
    return deadline


def states_of(payment: Payment) -> list[str]:
    return [row.state for row in transactions_of(payment)]


def state_of(payment: Payment) -> str:
    return transaction_of(payment).state


def status_of(payment: Payment) -> str:
    return Payment.objects.get(pk=payment.pk).status


def transitions_of(settlement: Settlement | TransactionRow) -> list[tuple[str, str, str]]:
    """List what is recorded of a transaction: old state, new state, reason."""
    return list(Transition.objects.filter(settlement=settlement.tx).order_by("id").values_list("old", "new", "reason"))


def row_of(settlement: Settlement) -> TransactionRow:
    """Read a transaction as it is followed."""
    (row,) = read_rows(Settlement.objects.filter(pk=settlement.pk))
    return row


def turn_of(settlement: Settlement) -> Submitter:
    return Submitter(settlement.relayer.number, settlement.relayer.address, settlement.nonce)


def at_once(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Act in threads that start together, each with a database connection of its own."""
    everyone = Barrier(len(acts))

    def act_and_leave(act: Callable[[], Any]) -> Any:
        try:
            everyone.wait()
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act_and_leave, acts))


def is_waited_for() -> bool:
    """Tell whether somebody waits for a lock that this transaction has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])


def nonces_of(scene: Scene, number: int = 0) -> int:
    return scene.relayer(number).next_nonce or 0
