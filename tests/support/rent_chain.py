"""A fake chain on which a payee's account needs rent, and payees on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from chains.port import ChainUnavailable, IncludedPayment, Obstacle, Order, TransactionPlan
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import PayeeState
from services.models import Service
from tests.support.fake_chain import FakeChain
from tests.support.payment_requests import make_service_on

LEAST_LAMPORTS = 890_880
NOT_SEEN = "It is not known what the recipient holds."
WHY = "The recipient has no account yet: a first payment must be at least 0.00089088 SOL."


@dataclass
class RentChain(FakeChain):
    """A chain that, as Solana does, lets no payment leave an account with less than a minimum in it."""

    asked_about: list[tuple[str, Asset]] = field(default_factory=list)
    told: list[IncludedPayment] = field(default_factory=list)

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        missing = LEAST_LAMPORTS - (payee["lamports"] if payee else LEAST_LAMPORTS)
        return Obstacle(WHY, Decimal(missing).scaleb(-9)) if order.amount * 10**9 < missing else None

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        for one in plan.payments:
            if one.payee is None and one.order.amount * 10**9 < LEAST_LAMPORTS:
                raise ChainUnavailable(NOT_SEEN)
            if obstacle := self.find_obstacle(one.order, {}, one.payee):
                raise ChainUnavailable(obstacle.message)
        return super().rehearse(plan)

    def observe_payees(self, payees: Any, known: Any, find_landed: Any) -> dict[str, dict[str, Any]]:
        self.asked_about += payees
        self.told = find_landed([address for address, _ in payees])
        return super().observe_payees(payees, known, find_landed)


def make_sol_service(chain: FakeChain, *, address: str | None = None, status: str = "approved") -> Service:
    """Make a service that is paid in SOL on a fake chain."""
    service = make_service_on(chain)
    address = address or service.address
    Service.objects.filter(pk=service.pk).update(
        asset=Asset.SOL, address=address, approved_recipient=f"{chain.name}:{address}"
    )
    Service.objects.filter(pk=service.pk).update(status=status)
    return Service.objects.get(pk=service.pk)


def see(chain: FakeChain, address: str, lamports: int, at: datetime | None = None) -> None:
    """Write down what the watcher would have seen of a payee."""
    PayeeState.objects.create(
        chain=chain.name, address=address, state={"lamports": lamports}, observed_at=at or utc_now()
    )
