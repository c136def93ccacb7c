"""What a person has to approve of one agent's payments, and what becomes of it: steps of the model of an agent."""

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable
from foundation.kernel.times import LARGEST_SKEW
from ledger.models import HoldAnswer, LogEntry
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from tests.support.agent_model import AgentModel
from tests.support.factories import seen_by
from tests.support.model_records import Bought, Expected, Waiting
from tests.support.payment_requests import environment_of

_BY_PERSON = Expected("blocked", "approved_by_person")


class HeldModel(AgentModel):
    """People answer what waits, and a worker ends what nobody is waited for any more."""

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), answer=st.sampled_from(HoldAnswer))
    def answer(self, data: st.DataObject, answer: HoldAnswer) -> None:
        one = data.draw(st.sampled_from(self.waiting))
        if one.answer is not None or self.now >= one.expires_at:
            with pytest.raises(OperationRefused):
                answer_hold(one.payment_id, answer, by="ann", reason="A reason", now=self.now)
            return
        answer_hold(one.payment_id, answer, by="ann", reason="A reason", now=self.now)
        one.answer = answer

    @precondition(lambda self: self.waiting)
    @rule()
    def let_a_worker_end_what_can_be_ended(self) -> None:
        for one in [*self.waiting]:
            self._finish(one)

    def _finish(self, one: Waiting) -> None:
        at = max(self.now, self.last_at)
        expected = self._end_of_waiting(one, at)
        count = LogEntry.objects.filter(agent=self.agent).count()
        is_kept = expected is not None and at - self.now > LARGEST_SKEW  # the clock stepped back
        is_unsigned = expected is not None and expected.result == "approved" and self.is_stopped
        if is_unsigned and self.now >= one.expires_at:
            expected, is_unsigned = _BY_PERSON, False
        with seen_by(self.now, self.chain.name):
            if is_kept or is_unsigned:
                with pytest.raises(PolicySignerUnavailable):
                    finish_hold(one.payment_id, environment_of(self.chain, self.now))
                final = None
            else:
                final = finish_hold(one.payment_id, environment_of(self.chain, self.now))
        if final is None:
            assert expected is None or is_kept or is_unsigned
            assert LogEntry.objects.filter(agent=self.agent).count() == count
            return
        assert Expected(final.result, final.rule) == expected
        assert final.created_at == at
        self.last_at = at
        self.waiting.remove(one)
        one.decided.entry_id, one.decided.rule = final.id, final.rule
        if final.result == "approved":
            assert final.payment_id == one.payment_id
            self._buy(one.amount, at, one.payment_id)

    def _end_of_waiting(self, one: Waiting, at: datetime) -> Expected | None:
        """Tell how a hold must end; None: it must not."""
        if one.answer == HoldAnswer.DECLINE:
            return _BY_PERSON
        if one.answer == HoldAnswer.APPROVE:
            return self._judge(one.amount, at, one)
        return _BY_PERSON if self.is_paused or self.now >= one.expires_at else None

    def _buy(self, amount: Decimal, at: datetime, payment_id: str) -> None:
        self.balance -= amount
        self.bought.append(Bought(at, amount, self.limits, payment_id))
