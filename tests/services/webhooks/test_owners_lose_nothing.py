"""Whatever ends between a decision and its delivery, the owner of the agent is told what was decided, no more."""

from datetime import timedelta

import pytest
from django.db import transaction

from foundation.kernel.times import utc_now
from ledger.models import Hold
from services.models import Outcome, WebhookDelivery
from services.webhooks.claims import CLAIM_LASTS, claim_deliveries
from tests.services.webhooks.told import delivery_of, outcomes_of
from tests.support.holds import decline, finish

pytestmark = pytest.mark.django_db


def test_what_a_worker_had_claimed_when_it_died_is_told_by_the_next_one(open_owner):
    with open_owner() as owner:
        owner.hold()
        (event,) = owner.events()
        (claimed,) = [one for one in claim_deliveries(100, owner.now) if one.agent_id == owner.agent.id]
        assert (claimed.event_id, claimed.service) == (event.id, None)

        assert owner.deliver(after=CLAIM_LASTS) == 1

        assert outcomes_of(event.id) == [Outcome.UNKNOWN, Outcome.DELIVERED]


def test_a_decision_that_is_taken_back_is_not_told(open_owner):
    with open_owner() as owner:
        with transaction.atomic():
            owner.hold()
            (event,) = owner.events()
            assert delivery_of(event.id).endpoint_id == owner.endpoint
            transaction.set_rollback(True)

        assert owner.events() == []
        assert not WebhookDelivery.objects.filter(endpoint=owner.endpoint).exists()


def test_what_cannot_be_told_is_not_decided(open_owner, monkeypatch):
    with open_owner() as owner:
        held = owner.hold()
        monkeypatch.setattr("payments.deciding.recording.write_approval_events", fail)

        for decide_it in (owner.hold, lambda: decline(held)):
            with pytest.raises(RuntimeError, match="The process ends here"), transaction.atomic():
                decide_it()

        monkeypatch.undo()
        assert Hold.objects.get(agent=owner.agent).ended_at is None
        finish(held, utc_now() + timedelta(hours=25))
        assert [one.type for one in owner.events()] == ["approval.requested", "approval.expired"]


def fail(_decided):
    raise RuntimeError("The process ends here.")
