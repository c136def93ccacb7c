"""Random histories of an agent whose payments a person approves, against a model that sums by brute force."""

import os
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, event
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from ledger.models import Hold, HoldAnswer
from payments.holding.answering import answer_hold
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from tests.support.agent_model import AMOUNTS, LIMITS
from tests.support.asking_model import AskingModel

pytestmark = pytest.mark.long(30)
_THRESHOLDS = st.sampled_from([Decimal(text) for text in ("0", "2.50", "4.99", "5")])
ASKING = st.builds(
    MoreLimits,
    approval_above=_THRESHOLDS,
    approval_above_day=st.none() | _THRESHOLDS,
    approval_for_first=st.none() | st.just(True),
    approval_hours=st.none() | st.sampled_from([1, 30]),
    payments_per_day=st.none() | st.sampled_from([1, 3]),
    total_limit=st.none() | LIMITS,
    payee_weekly_limit=st.none() | LIMITS,
)
_STEPS = st.sampled_from(
    [
        *(timedelta(minutes=minutes) for minutes in (0, 3, 59, 60)),
        *(timedelta(hours=hours) for hours in (-3, 7, 23, 24, 30)),
        timedelta(days=7),
    ]
)
_WIDE = st.sampled_from([Decimal(25), Decimal(60)])


class Holds(AskingModel):
    """The policy always asks for a person; the chain is stopped and started."""

    has_nonces = True

    @initialize(daily=_WIDE, weekly=_WIDE, more=ASKING, balance=st.sampled_from(["30", "500"]))
    def begin(self, daily: Decimal, weekly: Decimal, more: MoreLimits, balance: str) -> None:
        AskingModel.begin(self, daily, weekly, more, balance)

    @rule(step=_STEPS)
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    @rule(amount=AMOUNTS, answer=st.sampled_from(HoldAnswer))
    def pay_and_answer(self, amount: Decimal, answer: HoldAnswer) -> None:
        """As most of it goes: asked for, answered, and ended at once."""
        before = [*self.waiting]
        self.pay(amount)
        for one in self.waiting:
            if one not in before:
                answer_hold(one.payment_id, answer, by="ann", reason="A reason", now=self.now)
                one.answer = answer
        self.let_a_worker_end_what_can_be_ended()

    @rule(daily=_WIDE, weekly=_WIDE, more=ASKING)
    def change_policy(self, daily: Decimal, weekly: Decimal, more: MoreLimits) -> None:
        self.limits = Limits(Decimal(10), daily, weekly, None, more)
        set_policy(self.agent.id, change=lambda _: self.limits, by="test")

    @precondition(lambda self: self.waiting)
    @rule()
    def stop_or_start_signing(self) -> None:
        if self.is_stopped:
            start_signing_on(self.chain.name, by="ann")
        else:
            stop_signing_on(self.chain.name, by="ann", reason="A reason")
        self.is_stopped = not self.is_stopped

    def teardown(self) -> None:
        for rule_, result in Hold.objects.filter(agent=self.agent).values_list("entry__rule", "final_entry__result"):
            event(f"{rule_}: {result}")


@pytest.mark.usefixtures("committed")
def test_no_history_with_answers_overspends_loses_or_repeats_anything(settings):
    settings.RELAYERS_PER_CHAIN = 2
    run_state_machine_as_test(
        Holds,
        settings=Settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            derandomize="CI" in os.environ,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
