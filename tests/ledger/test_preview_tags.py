"""The preview of a policy that allows tags: payees have the tags that they have now."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.errors import ServiceNotApproved
from foundation.kernel.times import utc_now
from ledger.past_payees import read_payees
from ledger.preview import preview_limits
from policy.limits import Limits
from policy.more_limits import MoreLimits
from services.operations import disable_service, set_tags
from tests.support.factories import decide, make_agent, make_service

pytestmark = pytest.mark.django_db
MUCH = Decimal(1000)


def look(agent, *, services=None, tags=None):
    """Return by which rules other payees would have been refused, and how many were let through."""
    agent.refresh_from_db()
    limits = Limits(MUCH, MUCH, MUCH, services, MoreLimits(allowed_tags=tags))
    seen = preview_limits(agent, limits, now=utc_now(), payees=read_payees(limits))
    return dict(seen.refused.by_rule), seen.let_through.count


def test_what_was_paid_is_refused_where_the_payee_has_no_allowed_tag():
    agent, data, other = make_agent(), make_service(tags=["data"]), make_service()
    decide(agent, data, at=utc_now() - timedelta(days=2))
    decide(agent, other, at=utc_now() - timedelta(days=1))

    assert look(agent, tags=("data",)) == ({"service_approved": 1}, 0)
    assert look(agent, tags=("compute",)) == ({"service_approved": 2}, 0)
    assert look(agent, tags=("data",), services=[other.id]) == ({}, 0)
    assert look(agent) == ({}, 0)
    disable_service(data.id, by="ann")  # it was approved then
    assert look(agent, tags=("data",), services=[other.id]) == ({}, 0)


def test_what_was_refused_is_let_through_where_the_payee_has_an_allowed_tag_now():
    agent, service = make_agent(allowed_tags=("data",)), make_service()
    with pytest.raises(ServiceNotApproved):
        decide(agent, service)

    assert look(agent, tags=("compute",)) == ({}, 0)
    set_tags(service.id, ["compute"], by="ann")
    assert look(agent, tags=("compute",)) == ({}, 1)
    assert look(agent, tags=("data",), services=[service.id]) == ({}, 1)
