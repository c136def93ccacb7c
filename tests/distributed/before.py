"""What an installation was on one server, before it was spread over several: it has paid, and some of it waits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from solders.keypair import Keypair

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.funding.withdrawals import book_withdrawal
from payments.lifecycle import PaymentStatus
from payments.models import Payment, Settlement
from payments.reconciling.reconciliation import reconcile
from policy.limits import Limits
from policy.models import Agent
from policy.shadows import begin_shadow
from policy.template_operations import follow_template, make_template
from services.models import Service
from services.served_chains import served_chains
from tests.distributed.storming import pay, shots_of
from tests.support.factories import make_agent, make_api_key, make_service, new_address, new_name
from tests.support.house import House
from tests.support.kills import wait_until
from tests.support.local_ids import LOCALNET
from tests.support.storms import Shot, strike
from tests.support.trees import make_child

AGENTS, PAID = 20, 5


@dataclass(frozen=True, slots=True)
class Before:
    """The requests that were answered, and the ids of their payments, in this order; `held` waits for approval.

    At `ended_at` all was settled.
    """

    agents: Sequence[Agent]
    shots: Sequence[Shot]
    told: Sequence[str]
    held: str
    ended_at: datetime


def live(house: House) -> Before:
    """Let agents pay, until all is settled that can be."""
    agents = [make_agent() for _ in range(AGENTS)]
    agents += [make_child(agents[0]), make_child(make_child(agents[1])), make_agent(approval_above=Decimal(0))]
    service, key = make_service(webhook_url="https://hooks.example.com/"), make_api_key()
    payees = [service, make_payee_on_solana()]
    held = pay(house, key, agents.pop().pk, service.pk)
    shots = [shot for n, agent in enumerate(agents) for shot in shots_of(house, agent.pk, payees[n % 2].pk, key, PAID)]
    answers = sorted(strike(shots), key=lambda one: one.index)
    assert {one.status for one in answers} == {201}
    reconcile(LOCALNET, served_chains()[LOCALNET])
    _leave_open(agents)
    wait_until(_is_settled, "all is settled", patience_s=90)
    return Before(agents, shots, [json.loads(one.text)["id"] for one in answers], held.json()["id"], utc_now())


def make_payee_on_solana() -> Service:
    """Make a payee who is paid in USDC on Solana, where relayers have no nonces."""
    return make_service(recipient=f"solana-localnet:{Keypair().pubkey()}")


def _is_settled() -> bool:
    is_open = Settlement.objects.filter(state__in=("signed", "broadcast", "included")).exists()
    return not is_open and not Payment.objects.filter(status=PaymentStatus.APPROVED).exists()


def _leave_open(agents: Sequence[Agent]) -> None:
    """Leave what people have begun: a withdrawal, a shadow, a template and who follows it, a key."""
    book_withdrawal(agents[0].pk, amount=Decimal(1), chain=LOCALNET, recipient=new_address(), by="ann", reason="R")
    begin_shadow(agents[2].pk, change=lambda now: replace(now, daily_limit=Decimal(5)), by="ann")
    template = make_template(
        new_name("t"), asset=Asset.USDC, limits=Limits(Decimal(9), Decimal(90), Decimal(900)), by="ann"
    )
    follow_template(agents[3].pk, template.name, by="ann")
    make_api_key(agent=agents[4])
