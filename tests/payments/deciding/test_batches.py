"""Payments that are decided together: each gets what it would get by itself, after those before it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from allowance.kernel.assets import Asset
from allowance.kernel.errors import (
    AgentNotFound,
    AgentPaused,
    BudgetExceeded,
    ContractError,
    IdempotencyConflict,
    InvalidRequest,
    ServiceNotApproved,
)
from ledger.models import BalanceMovement, LogEntry
from payments.deciding.operations import Approval, conclude, decide_together, request_payment
from payments.deciding.requests import Environment, PaymentRequest
from payments.models import Payment, Relayer, Settlement
from policy.models import Agent
from policy.operations import pause_agent, resume_agent
from services.models import WebhookEvent
from tests.support.agent_model import START
from tests.support.factories import make_agent, new_name, seen_by
from tests.support.fake_chain import make_fake_chain
from tests.support.invariants import check_agent, check_nonces
from tests.support.payment_requests import environment_of, make_request, make_service_on

AMOUNTS = ["0.01", "1.00", "4.99", "5", "9.99", "10.00", "12"]
# Each of these has its own answer; the rest is the same in all rows of a table, or comes from chance.
TABLES: dict[Any, tuple[str, ...]] = {
    LogEntry: (
        "agent_id", "service", "amount", "asset", "result", "rule", "created_at", "reason", "metadata_json",
        "policy_revision", "explanation_json", "key_id", "idempotency_key", "fingerprint", "spent_total",
        "clock_repairs", "refused_request",
    ),
    Payment: ("agent_id", "service_id", "asset", "amount", "chain", "recipient", "escrow_id", "status", "created_at"),
    Settlement: (
        "payment__escrow_id", "chain", "is_void", "valid_until", "state", "created_at", "agent_id", "most_cost",
    ),
    BalanceMovement: ("agent_id", "kind", "amount", "balance_after", "author", "reason", "created_at"),
    WebhookEvent: ("service_id", "type", "created_at"),
    Agent: ("id", "balance", "spent_total", "last_entry_at"),
}  # fmt: skip


def answers_of(requests: list[PaymentRequest], outcomes: Any) -> list[str]:
    """Tell what each request is answered, without the ids of entries and payments, which come from chance."""
    told = []
    for request, outcome in zip(requests, outcomes, strict=True):
        try:
            approval = conclude(request, outcome)
        except ContractError as error:
            details = {name: value for name, value in error.details.items() if name != "logId"}
            told.append(f"{type(error).__name__} {error.message} {details} {error.replayed} {error.retry_after_s}")
        else:
            told.append(f"{approval.entry.amount} {approval.entry.explanation_json} {approval.is_replay}")
    return told


@contextmanager
def undone() -> Iterator[None]:
    """Undo all changes at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def rows() -> dict[str, list[str]]:
    """Read all that decisions write. Where the escrow's ids come from chance, they are left out."""
    found = {model.__name__: model.objects.values_list(*columns) for model, columns in TABLES.items()}
    return {
        name: sorted(repr([None if str(value).startswith("pay_") else value for value in row]) for row in rows_)
        for name, rows_ in found.items()
    }


class TogetherOrOneByOne(RuleBasedStateMachine):
    """Agents, payees and a clock; each batch is decided in both ways, from the same state."""

    def __init__(self) -> None:
        super().__init__()
        self._undone = undone()
        self._undone.__enter__()

    def teardown(self) -> None:
        self._undone.__exit__(None, None, None)

    @initialize(has_nonces=st.booleans(), gas=st.sampled_from([None, 3]), most_refusals=st.sampled_from([2, 600]))
    def begin(self, *, has_nonces: bool, gas: int | None, most_refusals: int) -> None:
        self.chain = make_fake_chain(relayers=2, has_nonces=has_nonces)
        self.services = [
            make_service_on(self.chain, webhook_url="https://payee.example/hook"),
            make_service_on(self.chain),
        ]
        self.agents = [
            make_agent(max_per_payment="10", daily_limit="25", weekly_limit="40", balance=balance)
            for balance in ("30", "500", "12")
        ]
        self.now = START
        self.most_refusals = most_refusals
        self.gas_budget = None if gas is None else Decimal(gas)
        self.keys = [new_name("key") for _ in range(4)]

    @rule(step=st.sampled_from([timedelta(0), timedelta(seconds=2), timedelta(minutes=2), timedelta(hours=25)]))
    def wait(self, step: timedelta) -> None:
        self.now += step

    @rule(number=st.integers(0, 2))
    def pause_or_resume(self, number: int) -> None:
        agent = Agent.objects.get(pk=self.agents[number].pk)
        (pause_agent if agent.status == "active" else resume_agent)(agent.pk)

    @rule(is_unprepared=st.booleans())
    def let_the_chain_fail(self, *, is_unprepared: bool) -> None:
        self.chain.is_unprepared = is_unprepared

    @rule(
        asked=st.lists(
            st.tuples(
                st.integers(0, 2), st.integers(0, 1), st.sampled_from(AMOUNTS), st.sampled_from([None, 0, 1, 2, 3])
            ),
            min_size=1,
            max_size=9,
        ),
        keeps_batch=st.booleans(),
    )
    def ask(self, asked: list[tuple[int, int, str, int | None]], *, keeps_batch: bool) -> None:
        requests = [
            make_request(
                self.agents[agent], self.services[service], amount, new_name("key") if key is None else self.keys[key]
            )
            for agent, service, amount, key in asked
        ]
        ways = [self._together, self._one_by_one]
        if keeps_batch:
            ways.reverse()
        with undone():
            first = self._see(ways[0], requests)
        second = self._see(ways[1], requests)
        assert first == second
        for agent in self.agents:
            check_agent(agent.pk)
        check_nonces(self.chain.name)

    def _see(self, way: Any, requests: list[PaymentRequest]) -> Any:
        with seen_by(self.now, self.chain.name):
            outcomes = way(requests)
        return answers_of(requests, outcomes), rows()

    def _together(self, requests: list[PaymentRequest]) -> Any:
        return decide_together(requests, self._environment(), wait_s=None)

    def _one_by_one(self, requests: list[PaymentRequest]) -> Any:
        return [decide_together([one], self._environment(), wait_s=None)[0] for one in requests]

    def _environment(self) -> Environment:
        return replace(
            environment_of(self.chain, self.now),
            refusals_per_minute=self.most_refusals,
            gas_budget=self.gas_budget,
        )


@pytest.mark.django_db
def test_payments_decided_together_are_what_they_are_one_by_one():
    run_state_machine_as_test(TogetherOrOneByOne, settings=Settings(max_examples=12, stateful_step_count=10))


# --- What goes wrong for one ------------------------------------------------------------------------------------------
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
        changed = replace(environment_of(self.chain), **environment)
        return [
            _conclude(request, outcome)
            for request, outcome in zip(requests, decide_together(requests, changed, wait_s=None), strict=True)
        ]


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
    pause_agent(paused.pk)
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
    batch = [scene.request(agent=make_agent()) for _ in range(20)]

    assert approved(scene.decide(batch)) == [True] * 20

    used = Settlement.objects.filter(chain=scene.chain.name)
    assert set(used.values_list("nonce", flat=True)) == set(range(20))
    assert used.values("relayer").distinct().count() == 1
    assert Relayer.objects.get(pk=used[0].relayer_id).next_nonce == 20


@pytest.mark.django_db
def test_what_the_gas_money_of_one_relayer_does_not_pay_for_another_one_submits(scene):
    Relayer.objects.filter(chain=scene.chain.name).update(funded_until=3)

    answers = scene.decide([scene.request() for _ in range(8)])

    assert approved(answers) == [True] * 6 + [False] * 2
    assert set(Relayer.objects.filter(chain=scene.chain.name).values_list("next_nonce", flat=True)) == {3}
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
