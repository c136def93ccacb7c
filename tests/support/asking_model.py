"""The agent of the model asks for payments, and staff change what it may: steps of the model of an agent."""

from datetime import timedelta
from decimal import Decimal

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from foundation.kernel.errors import IdempotencyConflict, PolicySignerUnavailable
from foundation.kernel.times import LARGEST_SKEW
from ledger.models import LogEntry
from payments.deciding.operations import Approval
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.operations import pause_agent, resume_agent, set_policy
from services.models import Service
from services.operations import disable_service
from tests.support.agent_model import AMOUNTS, LIMITS, OPTIONAL, STEPS
from tests.support.held_model import HeldModel
from tests.support.model_records import Decided, Expected, Waiting
from tests.support.payment_requests import make_request


class AskingModel(HeldModel):
    """What happens whatever the chain is like."""

    @rule(amount=AMOUNTS)
    def pay(self, amount: Decimal) -> None:
        at = max(self.now, self.last_at)
        if at - self.now > LARGEST_SKEW:
            # The clock stepped back: until it is there again, nothing is decided.
            count = LogEntry.objects.filter(agent=self.agent).count()
            assert isinstance(self._ask(make_request(self.agent, self.service, str(amount))), PolicySignerUnavailable)
            assert LogEntry.objects.filter(agent=self.agent).count() == count
            return
        expected = self._judge(amount, at)
        self.last_at = at

        request = make_request(self.agent, self.service, str(amount))
        decided = self._ask(request)

        if expected.result == "approved" and self.is_stopped:
            self._see_that_nothing_was_signed(request, decided)
            return
        entry = LogEntry.objects.get(agent=self.agent, idempotency_key=request.idempotency_key)
        assert Expected(entry.result, entry.rule) == expected
        assert entry.created_at == at
        assert isinstance(decided, Approval) == (expected.result != "blocked")
        self.decided.append(Decided(request, entry.rule, entry.id))
        if expected.result == "approved":
            self._buy(amount, at, str(entry.payment_id))
        elif expected.result == "held":
            expires_at = at + self.limits.more.time_to_approve
            self.waiting.append(Waiting(self.decided[-1], str(entry.payment_id), expires_at))

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        earlier = data.draw(st.sampled_from(self.decided))
        count = LogEntry.objects.filter(agent=self.agent).count()

        again = self._ask(earlier.request)

        if isinstance(again, Approval):
            assert again.is_replay
            assert again.entry.id == earlier.entry_id
        else:
            assert again.replayed
            assert again.details["logId"] == earlier.entry_id
            assert again.details["rule"] == earlier.rule
        assert LogEntry.objects.filter(agent=self.agent).count() == count

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def ask_for_something_else_with_an_old_key(self, data: st.DataObject) -> None:
        earlier = data.draw(st.sampled_from(self.decided))
        other = make_request(self.agent, self.service, "0.07", earlier.request.idempotency_key)
        count = LogEntry.objects.filter(agent=self.agent).count()

        assert isinstance(self._ask(other), IdempotencyConflict)

        assert LogEntry.objects.filter(agent=self.agent).count() == count

    @rule(step=STEPS)
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    @rule(daily=LIMITS, weekly=LIMITS, more=OPTIONAL)
    def change_policy(self, daily: Decimal, weekly: Decimal, more: MoreLimits) -> None:
        self.limits = Limits(Decimal(10), daily, weekly, None, more)
        set_policy(self.agent.id, change=lambda _: self.limits, by="test")

    @rule()
    def pause_or_resume(self) -> None:
        (resume_agent if self.is_paused else pause_agent)(self.agent.id, by="ann")
        self.is_paused = not self.is_paused

    @rule()
    def disable_or_approve_the_service(self) -> None:
        if self.is_disabled:  # a fake chain is not one that staff could approve
            Service.objects.filter(pk=self.service.pk).update(status="approved")
        else:
            disable_service(self.service.id, by="test")
        self.is_disabled = not self.is_disabled
