"""Shadows: limits that are tried on an agent. They decide nothing, and end once they are in force."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings

from foundation.kernel.errors import ContractError, OperationRefused
from foundation.kernel.times import utc_now
from policy.models import PolicyRevision, ShadowRevision
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from policy.proposals import KIND
from policy.revisions import limits_of
from policy.shadow_proposals import BEGIN, DROP
from policy.shadows import begin_shadow, drop_shadow, find_shadow
from staff.kinds import make
from staff.models import AuditEntry
from tests.support.factories import decide, make_agent, make_service, new_name

pytestmark = pytest.mark.django_db
LESS = partial(replace, daily_limit=Decimal(5), more=MoreLimits(payments_per_day=3))


@pytest.fixture
def agent():
    return make_agent()


def audit(agent):
    entries = AuditEntry.objects.filter(subject=agent.id, subject_type="shadow").order_by("id")
    return [(one.action, one.author, one.reason) for one in entries]


def shadow_of(agent):
    shadow = find_shadow(agent.id)
    return None if shadow is None else limits_of(shadow)


def test_a_shadow_has_the_limits_that_it_was_made_of_since_it_was_begun_and_the_audit_says_so(agent):
    before = utc_now()

    shadow = begin_shadow(agent.id, change=LESS, by="ann", reason="Ticket 7")

    in_force = limits_of(PolicyRevision.objects.get(agent=agent))
    assert shadow_of(agent) == LESS(in_force)
    assert (shadow.created_by, before <= shadow.created_at <= utc_now()) == ("ann", True)
    (entry,) = AuditEntry.objects.filter(subject_type="shadow", subject=agent.id)
    assert (entry.action, entry.author, entry.reason, entry.before) == ("shadow.begun", "ann", "Ticket 7", None)
    assert entry.after == {
        "maxPerPayment": "10.00", "dailyLimit": "5.00", "weeklyLimit": "100.00", "allowedServices": None,
        "paymentsPerDay": 3,
    }  # fmt: skip


def test_it_decides_nothing_and_the_policy_in_force_stays_as_it_is(agent, service):
    begin_shadow(agent.id, change=partial(replace, max_per_payment=Decimal(0)), by="ann")

    assert decide(agent, service, "10").result == "approved"
    with pytest.raises(ContractError):
        decide(agent, service, "10.01")
    agent.refresh_from_db()
    assert (agent.policy_revision, PolicyRevision.objects.filter(agent=agent).count()) == (1, 1)


def test_nothing_of_the_money_path_knows_of_shadows():
    root = Path(settings.BASE_DIR)
    paths = [*root.glob("payments/deciding/**/*.*"), *root.glob("ledger/sql/*"), *root.glob("services/sql/*")]
    sources = {path: path.read_text() for path in paths if path.suffix in (".py", ".sql")}

    assert len(sources) > 10
    assert [path for path, text in sources.items() if "shadow" in text.lower()] == []


def test_another_shadow_takes_the_place_of_the_one_before_and_is_tried_from_then_on(agent):
    first = begin_shadow(agent.id, change=LESS, by="ann")
    ShadowRevision.objects.update(created_at=first.created_at - timedelta(days=3))

    second = begin_shadow(agent.id, change=partial(replace, weekly_limit=Decimal(7)), by="bea", reason="Narrower")

    assert second.created_at >= first.created_at
    assert shadow_of(agent) == replace(limits_of(PolicyRevision.objects.get(agent=agent)), weekly_limit=Decimal(7))
    entry = AuditEntry.objects.get(subject_type="shadow", subject=agent.id, author="bea")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["dailyLimit"], entry.after["dailyLimit"]) == ("5.00", "50.00")
    assert (entry.before["paymentsPerDay"], entry.after["paymentsPerDay"]) == (3, None)


def test_a_shadow_is_dropped_once(agent):
    begin_shadow(agent.id, change=LESS, by="ann")

    drop_shadow(agent.id, by="bea", reason="Enough seen")

    assert shadow_of(agent) is None
    assert audit(agent)[1:] == [("shadow.dropped", "bea", "Enough seen")]
    with pytest.raises(OperationRefused, match="has no shadow"):
        drop_shadow(agent.id, by="bea")


def test_it_ends_once_its_limits_are_in_force_and_not_with_any_other_change(agent):
    service = make_service()
    begin_shadow(agent.id, change=lambda now: replace(LESS(now), allowed_services=["b", service.id, "a"]), by="ann")
    arguments = {"agent": agent.id, "daily_limit": "5.0", "payments_per_day": "3"}

    make(KIND, arguments, by="bea", reason="R")
    assert shadow_of(agent) is not None
    make(KIND, {**arguments, "allowed_services": [service.id, "a", "b"]}, by="bea", reason="It did no harm")

    assert shadow_of(agent) is None
    assert audit(agent)[1:] == [("shadow.adopted", "bea", "It did no harm")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"daily_limit": Decimal("0.0000001")}, "finer than one unit"),
        ({"daily_limit": Decimal(-1)}, "zero or more"),
        ({"allowed_services": ["s" * 129]}, "A service id"),
        ({"more": MoreLimits(new_payee_payments=1)}, "first payments"),
        ({}, "These limits are in force"),
        ({"daily_limit": Decimal("50.00")}, "These limits are in force"),
    ],
)
def test_what_is_no_policy_or_is_in_force_is_not_tried(agent, change, says):
    with pytest.raises(OperationRefused, match=says):
        begin_shadow(agent.id, change=partial(replace, **change), by="ann")

    assert (shadow_of(agent), audit(agent)) == (None, [])


def test_an_agent_that_there_is_not_has_none():
    nobody = new_name("nobody")
    for kind, more in ((BEGIN, {"daily_limit": "1"}), (DROP, {})):
        with pytest.raises(OperationRefused, match=nobody):
            make(kind, {"agent": nobody, **more}, by="ann", reason="R")
    with pytest.raises(OperationRefused, match=f"There is no agent {nobody}"):
        begin_shadow(nobody, change=LESS, by="ann")


def test_what_a_change_does_not_name_is_as_it_is_in_force(agent):
    make(BEGIN, {"agent": agent.id, "weekly_limit": "60", "hourly_limit": "2"}, by="ann", reason="R")
    set_policy(agent.id, change=partial(replace, daily_limit=Decimal(40)), by="test")
    make(BEGIN, {"agent": agent.id, "max_per_payment": "9"}, by="ann", reason="R")

    found = shadow_of(agent)
    assert found is not None
    assert (found.max_per_payment, found.daily_limit, found.weekly_limit, found.more) == (9, 40, 100, MoreLimits())
    with pytest.raises(OperationRefused, match="Name at least one limit"):
        make(BEGIN, {"agent": agent.id}, by="ann", reason="R")


def test_a_shadow_that_only_a_later_release_can_read_is_dropped_and_replaced_and_the_audit_has_it_as_written(agent):
    written = '{"ofLater":"1"}'
    begin_shadow(agent.id, change=LESS, by="ann")
    ShadowRevision.objects.filter(agent=agent).update(more_json=written)

    begin_shadow(agent.id, change=LESS, by="bea")
    ShadowRevision.objects.filter(agent=agent).update(more_json=written)
    make(DROP, {"agent": agent.id}, by="eve", reason="R")

    assert shadow_of(agent) is None
    _, replaced, dropped = AuditEntry.objects.filter(subject=agent.id, subject_type="shadow").order_by("id")
    for entry in (replaced, dropped):
        assert entry.before is not None
        assert (entry.before["moreJson"], entry.before["dailyLimit"]) == (written, "5.00")
