"""`GET /v1/payments`: its payments, filters and pages."""

from datetime import timedelta
from urllib.parse import quote

import pytest

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant, utc_now
from payments.models import Leg, Payment, Settlement
from tests.support.answers import error_of, faulty_params
from tests.support.factories import decide, make_agent, make_service, new_name
from tests.support.log_reads import ids

PATH = "/v1/payments"


def fill(agent, service, count, amount="0.01", *, start=None):
    """Make so many payments, some in the same millisecond; return their ids, newest first."""
    start = start or utc_now()
    made = [decide(agent, service, amount, at=start + timedelta(milliseconds=number // 2)) for number in range(count)]
    return sorted((entry.payment_id for entry in made), reverse=True)


def walk(api, query):
    pages, cursor = [], None
    while True:
        response = api.get(PATH, query if cursor is None else {**query, "cursor": cursor})
        pages.append(ids(response))
        cursor = response.json()["nextCursor"]
        if cursor is None:
            return pages


def test_each_payment_is_listed_as_it_is_shown_by_itself_newest_first(api, agent, service, payment):
    api.pay({**payment, "metadata": {"order": [7]}})
    entry = decide(agent, service, "0.50")
    Payment.objects.filter(pk=entry.payment_id).update(status="settled", settled_at=utc_now())
    Settlement.objects.filter(pk=entry.tx).update(state="replaced")
    second = Settlement.objects.get(pk=entry.tx)
    second.tx, second.state, second.created_at = "0x" + "6" * 64, "final", utc_now()
    second.save(force_insert=True)
    Leg.objects.create(payment_id=str(entry.payment_id), settlement=second, agent=agent, chain=second.chain)

    page = api.get(PATH, {"agentId": agent.id}).json()

    assert list(page) == ["data", "nextCursor"]
    assert page["nextCursor"] is None
    assert [len(one["transactions"]) for one in page["data"]] == [2, 1]
    assert page["data"] == [api.get(f"{PATH}/{one['id']}").json() for one in page["data"]]
    assert [list(one) for one in page["data"]] == [list(api.get(f"{PATH}/{entry.payment_id}").json())] * 2


def test_what_was_refused_is_not_listed(api, agent, payment):
    error_of(api.pay({**payment, "amount": "11"}, "refused"), 422, "budget_exceeded")

    assert ids(api.get(PATH, {"agentId": agent.id})) == []
    assert ids(api.get(PATH, {"agentId": agent.id, "idempotencyKey": "refused"})) == []


# --- Filters
@pytest.fixture
def story(agent, service):
    """Three payments an hour apart, each of another amount: by its number."""
    other = make_service()
    now = utc_now() - timedelta(hours=6)
    made = [
        decide(agent, service, "1", at=now, key="first"),
        decide(agent, other, "2.50", at=now + timedelta(hours=1), key='sec"ond'),
        decide(agent, service, "2.5", at=now + timedelta(hours=2)),
    ]
    Payment.objects.filter(pk=made[0].payment_id).update(status="settled", settled_at=now)
    Payment.objects.filter(pk=made[1].payment_id).update(status="failed", failed_at=now, failure_reason="Reverted.")
    return made


# What is asked for, with names of the story in braces, and the numbers of the payments that are found.
FILTERS = {
    "service": ({"service": "{service}"}, [2, 0]),
    "approved": ({"status": "approved"}, [2]),
    "settled": ({"status": "settled"}, [0]),
    "failed": ({"status": "failed"}, [1]),
    "amount": ({"amount": "2.5", "service": "{service}"}, [2]),
    "amount, otherwise written": ({"amount": "0002.500000000000000000", "service": "{service}"}, [2]),
    "amount of none": ({"amount": "2.51", "service": "{service}"}, []),
    "no amount": ({"amount": "0", "service": "{service}"}, []),
    "since then": ({"since": "{second}Z"}, [2, 1]),
    "since a moment later": ({"since": "{second}001Z"}, [2]),
    "since the beginning": ({"since": "0001-01-01T00:00:00Z"}, [2, 1, 0]),
    "since the end": ({"since": "9999-12-31T23:59:59.999999999Z"}, []),
    "since elsewhere": ({"since": "2026-01-01t00:00:00+14:00"}, [2, 1, 0]),
    "key": ({"idempotencyKey": "first"}, [0]),
    "key in quotes": ({"idempotencyKey": '"first"'}, [0]),
    "key with a quote": ({"idempotencyKey": 'sec"ond'}, [1]),
    "key of none": ({"idempotencyKey": "First"}, []),
    "several": ({"service": "{service}", "amount": "2.5", "status": "approved"}, [2]),
    "contradictory": ({"idempotencyKey": "first", "status": "failed"}, []),
    "nobody's service": ({"service": "nobody"}, []),
}


@pytest.mark.parametrize(("query", "wanted"), FILTERS.values(), ids=FILTERS.keys())
def test_filters_restrict_the_list_together(api, client_of, story, query, wanted):
    agent = story[0].agent
    names = {"service": story[0].service, "second": format_instant(story[1].created_at).rstrip("Z")}
    asked = {name: text.format(**names) for name, text in query.items()}

    for response in (api.get(PATH, {"agentId": agent.id, **asked}), client_of(agent=agent).get(PATH, asked)):
        assert ids(response) == [story[number].payment_id for number in wanted]


def test_payments_of_all_agents_are_found_by_what_they_have_in_common(api, agent, service):
    other = make_agent()
    mine, theirs = decide(agent, service, "0.123456"), decide(other, service, "0.654321")

    assert ids(api.get(PATH, {"service": service.id})) == [theirs.payment_id, mine.payment_id]
    assert faulty_params(api.get(PATH, {"amount": "0.1234560"})) == ["amount"]
    assert faulty_params(api.get(PATH, {"amount": "0.1234560", "agentId": agent.id})) == ["amount"]
    asked = {"amount": "0.1234560", "agentId": agent.id, "service": service.id}
    assert ids(api.get(PATH, asked)) == [mine.payment_id]
    assert set(ids(api.get(PATH))) >= {mine.payment_id, theirs.payment_id}


def test_an_idempotency_key_belongs_to_its_agent(api, client_of, agent, service):
    other = make_agent()
    mine, theirs = (decide(who, service, key="order-1").payment_id for who in (agent, other))

    assert ids(api.get(PATH, {"agentId": agent.id, "idempotencyKey": "order-1"})) == [mine]
    assert ids(client_of(agent=other).get(PATH, {"idempotencyKey": "order-1"})) == [theirs]
    assert faulty_params(api.get(PATH, {"idempotencyKey": "order-1"})) == ["idempotencyKey"]


FAULTS = {
    "agentId": [""],
    "service": [""],
    "status": ["", "paid", "Approved", "approved,failed", "null"],
    "amount": ["", "-1", "+1", "1e3", "1.", ".5", "1,5", "NaN", " 1", "1\n", "\u0661", "9" * 21, "0." + "1" * 19],
    "since": ["", "now", "2026-05-14", "2026-05-14T18:42:11", "2026-05-14 18:42:11Z", "2026-W20-4T00:00:00Z", "0",
              "2026-02-30T00:00:00Z", "2026-05-14T24:61:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
              "2026-05-14T18:42:11+99:99", "0000-01-01T00:00:00Z", "1e400", "x" * 5000, "2026-05-14T18:42:11Z\n"],
    "idempotencyKey": ["", '""', "x" * 256, "\u00fc", "a\nb", "\x7f"],
    "limit": ["", "0", "-1", "1.0", "ten", "\uff11"],
    "cursor": ["", "x", "null", "." * 10, "pay_01h00000000000000000000000"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FAULTS.items() for value in values])
def test_what_a_filter_cannot_mean_is_400(api, agent, name, value):
    assert faulty_params(api.get(PATH, {"agentId": agent.id, name: value})) == [name]


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("value", ["%00", "a%00b"])
def test_u0000_in_a_query_is_400(api, name, value):
    assert faulty_params(api.get(f"{PATH}?{name}={value}")) == [name]


@pytest.mark.parametrize("query", ["service=%ff", "service=%ed%a0%80", f"service={'x' * 20_000}", "&&&"])
def test_a_query_of_any_form_is_read(api, query):
    assert api.get(f"{PATH}?{query}").status_code == 200


# --- Bound keys
def test_a_bound_key_sees_its_own_payments_only(client_of, agent, service):
    other = make_agent()
    mine, theirs = decide(agent, service), decide(other, service)
    client = client_of(agent=agent)

    assert ids(client.get(PATH)) == ids(client.get(PATH, {"agentId": agent.id})) == [mine.payment_id]
    assert ids(client.get(PATH, {"service": service.id, "amount": "1"})) == [mine.payment_id]
    for name in (other.id, "nobody"):
        error_of(client.get(PATH, {"agentId": name}), 403, "insufficient_scope")
        error_of(client.get(PATH, {"agentId": name, "idempotencyKey": "x"}), 403, "insufficient_scope")
    error_of(client.get(f"{PATH}/{theirs.payment_id}"), 404, "payment_not_found")


def test_a_bound_key_cannot_use_a_cursor_of_everyones_payments(client_of, api, agent, service):
    decide(make_agent(), service)
    decide(agent, service)
    cursor = api.get(PATH, {"service": service.id, "limit": 1}).json()["nextCursor"]

    for query in ({}, {"service": service.id}):
        assert faulty_params(client_of(agent=agent).get(PATH, {**query, "cursor": cursor})) == ["cursor"]


# --- Pages
@pytest.mark.parametrize("limit", [1, 2, 5, 7, 100, 1000])
def test_pages_hold_every_payment_once_in_order(api, agent, service, limit):
    made = fill(agent, service, 7)

    pages = walk(api, {"agentId": agent.id, "limit": limit})

    assert [name for page in pages for name in page] == made
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


def test_pages_stay_stable_while_payments_arrive(api, agent, service):
    made = fill(agent, service, 6)
    for query in (
        {"agentId": agent.id},
        {"service": service.id},
        {"service": service.id, "since": "2026-01-01T00:00:00Z"},
    ):
        first = api.get(PATH, {**query, "limit": 2})
        newest = decide(agent, service, "0.01").payment_id
        Payment.objects.filter(pk=made[1]).update(failure_reason="changed meanwhile")

        second = api.get(PATH, {**query, "limit": 2, "cursor": first.json()["nextCursor"]})

        assert ids(first) + ids(second) == made[:4]
        made.insert(0, newest)


def test_a_cursor_belongs_to_its_filters_and_to_this_list(api, agent, service):
    fill(agent, service, 3)
    decide(agent, service, "0.01", key=(key := new_name("key")))
    mine = {"agentId": agent.id, "service": service.id, "amount": "0.01", "since": "2026-01-01T00:00:00Z"}
    cursor = api.get(PATH, {**mine, "limit": 1}).json()["nextCursor"]
    same = {**mine, "amount": "0.010", "since": "2026-01-01T02:00:00.000+02:00", "limit": 3}

    assert len(ids(api.get(PATH, {**same, "cursor": cursor}))) == 3
    for change in ({"amount": "0.02"}, {"service": "other"}, {"status": "approved"}, {"idempotencyKey": key},
                   {"since": "2026-01-01T00:00:01Z"}, {"agentId": make_agent().id}):  # fmt: skip
        assert faulty_params(api.get(PATH, {**mine, **change, "cursor": cursor})) == ["cursor"], change
    of_the_log = api.get("/v1/logs", {"agentId": agent.id, "limit": 1}).json()["nextCursor"]
    assert faulty_params(api.get(PATH, {"agentId": agent.id, "cursor": of_the_log})) == ["cursor"]
    assert faulty_params(api.get("/v1/logs", {"agentId": agent.id, "cursor": cursor})) == ["cursor"]
    for damaged in (cursor[:-1], cursor.upper(), quote(cursor) * 2):
        assert faulty_params(api.get(PATH, {**mine, "cursor": damaged})) == ["cursor"]


def test_the_list_is_read_and_nothing_else(api):
    for method in ("POST", "PUT", "DELETE"):
        assert api.send(method, PATH).status_code == 405
    assert api.get(f"{PATH}/").status_code == 200
    error_of(api.get(f"{PATH}/{new_id('pay', utc_now())}"), 404, "payment_not_found")
