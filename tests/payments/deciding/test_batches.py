"""Payments that are decided together: each gets what it would get by itself, after those before it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from foundation.kernel.errors import (
    ContractError,
)
from ledger.models import BalanceMovement, LogEntry
from payments.deciding.operations import conclude, decide_together
from payments.deciding.requests import Environment, PaymentRequest
from payments.models import Leg, Payment
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
    Leg: (
        "payment__escrow_id", "chain", "is_void", "is_live", "skipped", "agent_id", "most_cost",
        "settlement__valid_until", "settlement__state", "settlement__created_at",
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
    return [without_chance(text) for text in told]


def without_chance(text: str) -> str:
    return re.sub(r"\bpay_\w{26}\b", "pay_", text)


@contextmanager
def undone() -> Iterator[None]:
    """Undo all changes at the end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def rows() -> dict[str, list[str]]:
    """Read all that decisions write. Where the escrow's ids come from chance, they are left out."""
    found = {model.__name__: model.objects.values_list(*columns) for model, columns in TABLES.items()}
    return {name: sorted(without_chance(repr(list(row))) for row in rows_) for name, rows_ in found.items()}


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
        (pause_agent if agent.status == "active" else resume_agent)(agent.pk, by="ann")

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
