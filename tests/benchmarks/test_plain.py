"""The plain version that the benchmark measures decides, answers and writes as the product does."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings as configured
from django.forms import model_to_dict

from foundation.kernel.assets import Asset
from ledger.models import BalanceMovement, LogEntry
from payments.models import Leg, Payment, Settlement
from policy.models import Agent
from policy.operations import pause_agent, switch_signer
from services.models import WebhookEvent
from tests.support.api import Api
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.local_ids import LOCALNET

PLAIN = "tests.benchmarks.plain.urls"
# Of each run its own: ids, chain ids and hashes, moments, signatures.
OWN = re.compile(
    r"(?<=(?:pay|log|evt)_)[0-9a-z]{26}|0x[0-9a-f]{64}|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\dT[0-9:.]+Z|agent-[0-9a-f-]+"
)
UNLIKE = ["id", "signature", "relayer", "nonce", "payments"]


@dataclass
class Side:
    """One of the two, with an agent of its own that is like the other's, and what it has answered."""

    ask: Callable[[Any, str], Any]
    limits: dict[str, Any]
    service: Any

    def __post_init__(self):
        self.agent = make_agent(**self.limits)
        self.answers = []

    def pay(self, amount="1.00", key="", **members):
        body = {
            "agentId": self.agent.id, "service": self.service.id, "amount": amount, "asset": "USDC", "reason": "A test",
            **members,
        }  # fmt: skip
        answer = self.ask(body, key or f"key-{len(self.answers)}")
        replayed = answer.headers.get("Idempotent-Replayed")
        self.answers.append((answer.status_code, replayed, OWN.sub("*", answer.content.decode())))


@pytest.fixture
def sides(db, settings) -> Callable[..., list[Side]]:
    """Return a function that makes the product's side and the plain one, which pay the same service."""
    settings.CHAINS = dict(settings.CHAINS)
    api = Api(make_api_key())
    service = make_service(webhook_url="https://payee.example/hook")

    def ask_plain(body, key):
        before, settings.ROOT_URLCONF = settings.ROOT_URLCONF, PLAIN
        try:
            return api.pay(body, key)
        finally:
            settings.ROOT_URLCONF = before

    return lambda **limits: [Side(ask, limits, service) for ask in (api.pay, ask_plain)]


def compare(sides: list[Side], *statuses: int) -> None:
    product, plain = sides
    assert plain.answers == product.answers
    assert [status for status, _, _ in product.answers] == [*statuses]
    assert rows_of(plain.agent) == rows_of(product.agent)


def rows_of(agent: Agent) -> list[Any]:
    """Read what was written about an agent, without what is of each run its own."""
    mine = {"agent": agent.pk}
    payments = Payment.objects.filter(**mine).order_by("pk")
    events = WebhookEvent.objects.filter(payload__contains=agent.pk).order_by("pk")
    found: list[Any] = [
        Agent.objects.get(pk=agent.pk),
        *LogEntry.objects.filter(**mine).order_by("created_at", "pk"),
        *payments,
        *Settlement.objects.filter(payments__in=payments).order_by("first_payment_id"),
        *Leg.objects.filter(payment__in=payments).order_by("payment_id"),
        *BalanceMovement.objects.filter(**mine, kind="payment").order_by("pk"),
        *events,
    ]
    return [
        (type(row).__name__, *((n, plainly(v)) for n, v in model_to_dict(row, exclude=UNLIKE).items())) for row in found
    ]


def plainly(value: Any) -> Any:
    """Keep of a value what both runs have in common: of moments, that there is one."""
    return "a moment" if isinstance(value, datetime) else OWN.sub("*", value) if isinstance(value, str) else value


def test_approvals_replays_and_conflicts(sides):
    both = sides()
    for side in both:
        side.pay("1.00", "first")
        side.pay("0.5", "second", metadata={"b": [1, 2.5], "a": None})
        side.pay("1.00", "first")
        side.pay("2.00", "first")
        side.pay("10", "third")

    compare(both, 201, 201, 201, 409, 201)


REFUSALS = {
    "agent_active": lambda side: pause_agent(side.agent.id, by="ann"),
    "service_approved": {"service": "nobody"},
    "asset_matches": {"asset": "EURC"},
    "above_minimum": lambda _side: demand("5000"),
    "balance_covers_payment": {"amount": "1001"},
    "under_weekly_limit": {"amount": "100.01"},
    "under_daily_limit": {"amount": "50.01"},
    "under_max_payment": {"amount": "10.01"},
    "policy_signer_available": lambda _side: switch_signer(is_signing=False, by="test"),
}
STATUSES = [403, 403, 400, 400, 422, 422, 422, 422, 503]


def demand(minimum: str) -> None:
    """Pay no less than this on the EVM chain from now on."""
    served = configured.CHAINS[LOCALNET]
    configured.CHAINS[LOCALNET] = replace(served, minimums={**served.minimums, Asset.USDC: Decimal(minimum)})


@pytest.mark.parametrize(("rule", "status"), [*zip(REFUSALS, STATUSES, strict=True)])
def test_the_refusal_of_each_rule_and_its_replay(sides, rule, status):
    both = sides()
    for side in both:
        side.pay("1.00", "before")
    for side in both:
        fault = REFUSALS[rule]
        if callable(fault):
            fault(side)
        body = {} if callable(fault) else fault
        side.pay(**body, key="refused")
        if (
            rule != "policy_signer_available"
        ):  # this one alone is decided afresh, or answered from the log without a row
            side.pay(**body, key="refused")

    compare(both, 201, *[status] * (1 if rule == "policy_signer_available" else 2))
    assert rule in both[0].answers[1][2]


def test_windows_fill_up(sides):
    both = sides(daily_limit="3", weekly_limit="5")
    for side in both:
        for _ in range(4):
            side.pay("1.00")

    compare(both, 201, 201, 201, 422)


def test_what_is_not_a_request_of_a_known_agent(sides):
    both = sides()
    for side in both:
        side.pay(amount="1,5")
        side.pay(reason="")
        side.pay(agentId="nobody")

    compare(both, 400, 400, 404)
