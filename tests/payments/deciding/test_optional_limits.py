"""The optional limits of a policy on the money path: each at and above, and all of them against brute force."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.kernel.errors import BudgetExceeded, ContractError, OutsideAllowedTime
from foundation.kernel.times import utc_now
from policy.hours import parse_hours
from policy.more_limits import MoreLimits
from policy.more_limits import given as given_limits
from policy.payee_limits import PayeeException
from services.models import Service
from tests.support.factories import decide, make_agent, make_service
from tests.support.optional_limits import DAY, HOUR, MONTH, WEEK, Paid, Remembered

pytestmark = pytest.mark.django_db
FIVE = Decimal(5)
# A limit that lets two payments of 1 pass, and no third one until the first has left its window.
TWO: dict[str, tuple[dict[str, Any], timedelta]] = {
    "under_monthly_limit": ({"monthly_limit": Decimal(2)}, MONTH),
    "under_hourly_limit": ({"hourly_limit": Decimal(2)}, HOUR),
    "under_daily_count": ({"payments_per_day": 2}, DAY),
    "under_hourly_count": ({"payments_per_hour": 2}, HOUR),
    "under_payee_weekly_limit": ({"payee_weekly_limit": Decimal(2)}, WEEK),
    "under_payee_daily_limit": ({"payee_daily_limit": Decimal(2)}, DAY),
}


def start():
    """Give a moment that is past, at no fraction of a millisecond."""
    return utc_now() - timedelta(days=90)


def refusal_of(agent, service, amount="1", **options):
    with pytest.raises(ContractError) as refused:
        decide(agent, service, amount, **options)
    return refused.value


@pytest.mark.parametrize("rule", TWO)
def test_a_window_lets_pass_what_reaches_its_limit_and_says_when_the_next_one_fits(rule):
    (more, window), began = TWO[rule], start()
    agent, service = make_agent(**more), make_service()
    decide(agent, service, at=began)
    decide(agent, service, at=began + timedelta(minutes=10))

    refused = refusal_of(agent, service, at=began + timedelta(minutes=20))

    assert refused.details["rule"] == rule
    assert isinstance(refused, BudgetExceeded)
    assert refused.details["allowedAt"] == (began + window).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert refusal_of(agent, service, at=began + window - timedelta(milliseconds=1)).details["rule"] == rule
    decide(agent, service, at=began + window)


def test_the_total_limit_never_gets_room_again():
    began = start()
    agent, service = make_agent(total_limit=Decimal(2)), make_service()
    decide(agent, service, "2", at=began)

    refused = refusal_of(agent, service, "0.000001", at=began + timedelta(days=80))

    assert (refused.details["rule"], refused.details["allowedAt"]) == ("under_total_limit", None)
    assert [refused.details[name] for name in ("limit", "spent", "remaining")] == ["2.00", "2.00", "0.00"]


def test_a_count_is_told_in_numbers():
    agent, service = make_agent(payments_per_hour=1), make_service()
    decide(agent, service)

    refused = refusal_of(agent, service)

    assert [refused.details[name] for name in ("limit", "spent", "requested", "remaining")] == ["1", "1", "1", "0"]


@pytest.mark.parametrize(("amount", "is_let_pass"), [("5", True), ("5.000001", False)])
@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("under_payee_max_payment", {"payee_max_per_payment": FIVE}),
        ("under_first_payments_limit", {"new_payee_payments": 1, "new_payee_max_per_payment": FIVE}),
    ],
)
def test_a_limit_of_one_payment_lets_pass_what_reaches_it(rule, more, amount, is_let_pass):
    agent, service = make_agent(**more), make_service()

    if is_let_pass:
        decide(agent, service, amount)
    else:
        assert refusal_of(agent, service, amount).details["rule"] == rule


def test_after_its_first_payments_a_payee_is_paid_more():
    agent, service = make_agent(new_payee_payments=2, new_payee_max_per_payment=Decimal(1)), make_service()
    other = make_service()
    decide(agent, service)
    decide(agent, other)
    assert refusal_of(agent, service, "1.01").details["rule"] == "under_first_payments_limit"
    decide(agent, service)

    decide(agent, service, "10")

    assert refusal_of(agent, other, "1.01").details["rule"] == "under_first_payments_limit"


def test_an_exception_has_the_limits_that_it_names_and_the_others_of_all_payees():
    plain, trusted = make_service(), make_service()
    exceptions = {trusted.id: PayeeException({"payment": None, "day": Decimal(8)})}
    agent = make_agent(
        payee_max_per_payment=Decimal(1), payee_daily_limit=Decimal(3), payee_weekly_limit=Decimal(9),
        payee_limits=exceptions,
    )  # fmt: skip
    assert refusal_of(agent, plain, "1.01").details["rule"] == "under_payee_max_payment"
    decide(agent, trusted, "8")
    assert refusal_of(agent, trusted, "0.01").details["rule"] == "under_payee_daily_limit"


def test_outside_its_hours_an_agent_is_told_when_they_begin():
    at = start().replace(hour=12)
    hours = parse_hours(f"daily {at + HOUR:%H}:00-{at + 2 * HOUR:%H}:00 UTC")
    agent, service = make_agent(allowed_hours=hours), make_service()

    refused = refusal_of(agent, service, at=at)

    opens = (at + HOUR).replace(minute=0, second=0, microsecond=0)
    assert isinstance(refused, OutsideAllowedTime)
    assert refused.details["allowedAt"] == opens.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert refusal_of(agent, service, at=opens - timedelta(milliseconds=1)).details["rule"] == "within_hours"
    decide(agent, service, at=opens)


def test_an_allowance_begins_and_ends():
    began = start()
    agent = make_agent(allowed_from=began, allowed_until=began + DAY)
    service = make_service()
    early = refusal_of(agent, service, at=began - timedelta(milliseconds=1))
    decide(agent, service, at=began)
    decide(agent, service, at=began + DAY - timedelta(milliseconds=1))
    late = refusal_of(agent, service, at=began + DAY)

    assert (early.details["rule"], late.details["rule"]) == ("within_dates", "within_dates")
    assert early.details["allowedAt"] is not None
    assert late.details["allowedAt"] is None


def test_a_new_payee_waits_after_its_approval():
    agent, service, approved_at = make_agent(new_payee_wait_hours=24), make_service(), start()
    Service.objects.filter(pk=service.pk).update(decided_at=approved_at)

    refused = refusal_of(agent, service, at=approved_at + DAY - timedelta(milliseconds=1))

    assert refused.details["rule"] == "new_payee_waited"
    decide(agent, service, at=approved_at + DAY)


def test_what_fits_a_window_when_the_hours_are_over_fits_when_they_begin_again():
    at = start().replace(hour=10, minute=0, second=0, microsecond=0)
    hours = parse_hours("daily 10:00-11:00 UTC")
    agent, service = make_agent(hourly_limit=Decimal(1), allowed_hours=hours), make_service()
    decide(agent, service, at=at + timedelta(minutes=30))

    refused = refusal_of(agent, service, at=at + timedelta(minutes=40))

    assert refused.details["rule"] == "under_hourly_limit"
    assert refused.details["allowedAt"] == (at + DAY).isoformat(timespec="milliseconds").replace("+00:00", "Z")


AMOUNTS = st.sampled_from([Decimal(text) for text in ("0.01", "1", "2.5", "4.99", "5", "10")])
LIMITS = st.none() | st.sampled_from([Decimal(text) for text in ("0", "4.99", "5", "12", "30")])
COUNTS = st.none() | st.sampled_from([0, 1, 3, 8])
STEPS = st.sampled_from(
    [timedelta(0), timedelta(milliseconds=1), timedelta(minutes=20), HOUR - timedelta(milliseconds=1), HOUR, DAY,
     DAY - timedelta(milliseconds=1), timedelta(days=3), WEEK, MONTH]
)  # fmt: skip


@st.composite
def any_limits(draw, payees):
    first = draw(st.none() | st.sampled_from([1, 3]))
    exceptions = draw(
        st.none()
        | st.dictionaries(
            st.sampled_from(payees),
            st.dictionaries(st.sampled_from(["payment", "day", "week"]), LIMITS, min_size=1).map(PayeeException),
            min_size=1,
        )
    )
    return MoreLimits(
        hourly_limit=draw(LIMITS), monthly_limit=draw(LIMITS), total_limit=draw(st.none() | st.just(Decimal(60))),
        payments_per_hour=draw(COUNTS), payments_per_day=draw(COUNTS), payee_max_per_payment=draw(LIMITS),
        payee_daily_limit=draw(LIMITS), payee_weekly_limit=draw(LIMITS), payee_limits=exceptions,
        new_payee_payments=first, new_payee_max_per_payment=None if first is None else draw(AMOUNTS),
    )  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_all_optional_limits_decide_as_brute_force_does(data):
    services = [make_service(), make_service()]
    more = data.draw(any_limits([service.id for service in services]))
    optional = {part.field: value for part, value in given_limits(more)}
    agent = make_agent(
        max_per_payment="100", daily_limit="100000", weekly_limit="100000", balance="100000", **optional
    )  # fmt: skip
    remembered, at = Remembered(), start() - timedelta(days=400)  # however far it goes, it stays in the past
    for _ in range(data.draw(st.integers(3, 12))):
        at += data.draw(STEPS)
        service, amount = data.draw(st.sampled_from(services)), data.draw(AMOUNTS)
        wanted, found = remembered.refusing_rule(more, service.id, amount, at), None
        try:
            decide(agent, service, str(amount), at=at)
            remembered.paid.append(Paid(at, service.id, amount))
        except ContractError as refused:
            found = refused.details["rule"]
        assert found == wanted
        allowed_at = None if found is None else allowed_again(agent, service, amount, at)
        if allowed_at is not None:
            too_early = allowed_at - timedelta(milliseconds=1)
            assert remembered.refusing_rule(more, service.id, amount, allowed_at) is None
            assert remembered.refusing_rule(more, service.id, amount, too_early) is not None


def allowed_again(agent, service, amount, at):
    """Ask once more, for when it would fit; None: never."""
    text = refusal_of(agent, service, str(amount), at=at).details["allowedAt"]
    return None if text is None else datetime.fromisoformat(text)
