"""What goes wrong for one request of a batch does not go wrong for the others; what they share is shared rightly."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.errors import (
    AgentNotFound,
    AgentPaused,
    BudgetExceeded,
    IdempotencyConflict,
    InvalidRequest,
    ServiceNotApproved,
)
from ledger.models import LogEntry
from payments.deciding.operations import Approval, conclude, decide_together, request_payment
from payments.deciding.reading import Undecided
from payments.deciding.requests import PaymentRequest
from payments.models import Relayer, Settlement
from policy.models import Agent
from policy.operations import pause_agent
from tests.support.factories import make_agent
from tests.support.fake_chain import make_fake_chain
from tests.support.invariants import check_agent, check_nonces
from tests.support.payment_requests import environment_of, make_request, make_service_on


@pytest.fixture
def scene() -> Any:
    return Scene()


class Scene:
    """A chain, an agent, a payee, and a batch for them."""

    def __init__(self) -> None:
        self.chain = make_fake_chain(relayers=2)
        self.agent = make_agent()
        self.service = make_service_on(self.chain)

    def request(self, amount: str = "1.00", key: str | None = None, agent: Agent | None = None) -> PaymentRequest:
        return make_request(agent or self.agent, self.service, amount, key)

    def decide(self, requests: list[PaymentRequest], **environment: Any) -> list[Approval | Exception]:
        """Decide a batch, and what it leaves out in further ones."""
        changed = replace(environment_of(self.chain), **environment)
        outcomes = decide_together(requests, changed, wait_s=None)
        while any(isinstance(outcome, Undecided) for outcome in outcomes):
            left = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, Undecided)]
            again = decide_together([requests[place] for place in left], changed, wait_s=None)
            for place, outcome in zip(left, again, strict=True):
                outcomes[place] = outcome
        return [_conclude(request, outcome) for request, outcome in zip(requests, outcomes, strict=True)]


def _conclude(request: PaymentRequest, outcome: Any) -> Approval | Exception:
    try:
        return conclude(request, outcome)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error


def approved(answers: list[Approval | Exception]) -> list[bool]:
    return [isinstance(answer, Approval) for answer in answers]


@pytest.mark.django_db
def test_each_member_of_a_batch_fails_in_its_own_way_and_the_others_are_paid(scene):
    paused, poor = make_agent(), make_agent(balance="0.5")
    pause_agent(paused.pk, by="ann")
    earlier = scene.request()
    request_payment(earlier, environment_of(scene.chain))
    taken = scene.request()
    # The escrow's id of this one is taken: the transaction that records it fails.
    other = request_payment(scene.request(), environment_of(scene.chain)).entry.payment_id
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE payments_payment SET escrow_id = '0x' || encode(sha256(salt || sha256(%s) || sha256(%s)), 'hex')"
            " FROM payments_installation i WHERE payments_payment.id = %s",
            [taken.agent_id.encode(), taken.idempotency_key.encode(), other],
        )
    batch = [
        scene.request(),
        replace(scene.request(), agent_id="nobody"),
        scene.request(agent=paused),
        replace(scene.request(), service="nobody"),
        replace(scene.request(), asset=Asset.EURC),
        scene.request("2.00", agent=poor),
        earlier,
        replace(earlier, fingerprint=hashlib.sha256(b"another").digest()),
        taken,
        scene.request(),
    ]

    answers = scene.decide(batch)

    assert [type(answer).__name__ for answer in answers] == [
        "Approval", AgentNotFound.__name__, AgentPaused.__name__, ServiceNotApproved.__name__, InvalidRequest.__name__,
        BudgetExceeded.__name__, "Approval", IdempotencyConflict.__name__, "IntegrityError", "Approval",
    ]  # fmt: skip
    assert [answer.is_replay for answer in answers if isinstance(answer, Approval)] == [False, True, False]
    assert not LogEntry.objects.filter(idempotency_key=taken.idempotency_key).exists()
    check_agent(scene.agent.pk)
    check_nonces(scene.chain.name)


@pytest.mark.django_db
def test_the_same_key_twice_in_a_batch_is_one_decision_and_one_replay(scene):
    request = scene.request()

    first, second = scene.decide([request, request])

    assert isinstance(first, Approval)
    assert isinstance(second, Approval)
    assert (first.is_replay, second.is_replay) == (False, True)
    assert first.entry.pk == second.entry.pk
    assert LogEntry.objects.filter(agent=scene.agent).count() == 1


@pytest.mark.django_db
def test_the_same_key_twice_in_a_batch_with_another_payload_is_a_conflict(scene):
    request = scene.request()

    answers = scene.decide([request, replace(request, fingerprint=hashlib.sha256(b"another").digest())])

    assert approved(answers) == [True, False]
    assert isinstance(answers[1], IdempotencyConflict)


@pytest.mark.django_db
def test_a_batch_takes_one_relayer_and_consecutive_nonces(scene):
    scene.chain.most_together = 8
    batch = [scene.request(agent=make_agent()) for _ in range(20)]

    assert approved(scene.decide(batch)) == [True] * 20

    used = Settlement.objects.filter(chain=scene.chain.name).order_by("nonce")
    assert [(row.nonce, row.payments.count()) for row in used] == [(0, 8), (1, 8), (2, 4)]
    assert used.values("relayer").distinct().count() == 1
    assert Relayer.objects.get(pk=used[0].relayer_id).next_nonce == 3


@pytest.mark.django_db
def test_what_the_gas_money_of_one_relayer_does_not_pay_for_another_one_submits(scene):
    Relayer.objects.filter(chain=scene.chain.name).update(funded_until=3)

    answers = scene.decide([scene.request() for _ in range(8)])

    # However many a transaction makes, each may cost what it costs by itself.
    assert approved(answers) == [True] * 6 + [False] * 2
    relayers = Relayer.objects.filter(chain=scene.chain.name)
    assert set(relayers.values_list("next_nonce", "funded_until")) == {(1, 1)}
    check_nonces(scene.chain.name)


@pytest.mark.django_db
def test_the_gas_money_of_a_relayer_without_nonces_is_not_promised_twice():
    scene = Scene()
    scene.chain = make_fake_chain(has_nonces=False)
    scene.service = make_service_on(scene.chain)
    Relayer.objects.filter(chain=scene.chain.name).update(spendable=3, most_cost=1)

    answers = scene.decide([scene.request() for _ in range(5)])

    assert approved(answers) == [True] * 3 + [False] * 2


@pytest.mark.django_db
def test_refusals_of_a_batch_count_towards_the_limit_of_refusals(scene):
    answers = scene.decide([scene.request("5000") for _ in range(5)], refusals_per_minute=3)

    assert [type(answer).__name__ for answer in answers] == ["BudgetExceeded"] * 3 + ["RateLimited"] * 2
    assert LogEntry.objects.filter(agent=scene.agent).count() == 3
