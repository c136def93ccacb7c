"""`GET /v1/logs`: page sizes, cursors and the query."""

import re

import pytest

from foundation.api.cursors import write_cursor
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from tests.support.answers import error_of, faulty_params
from tests.support.factories import decide, make_agent
from tests.support.log_reads import fill, ids

PATH = "/v1/logs"


def walk(api, query, *, at_most=200):
    """Follow the cursors to the end, or so many pages; return the ids of each."""
    pages, cursor = [], None
    while True:
        response = api.get(PATH, query if cursor is None else {**query, "cursor": cursor})
        pages.append(ids(response))
        cursor = response.json()["nextCursor"]
        if cursor is None or len(pages) == at_most:
            return pages


# --- Page sizes
@pytest.fixture
def hundred(agent, service):
    return fill(agent, service, 103)


def test_a_page_has_25_entries_unless_told_otherwise_and_100_at_most(api, agent, hundred):
    sizes = {
        None: 25,
        "1": 1,
        "25": 25,
        "99": 99,
        "100": 100,
        "101": 100,
        "1000": 100,
        "9" * 400: 100,
        "007": 7,
        "0" * 40 + "5": 5,
    }
    for limit, size in sizes.items():
        query = {"agentId": agent.id} if limit is None else {"agentId": agent.id, "limit": limit}

        assert ids(api.get(PATH, query)) == hundred[:size], limit


@pytest.mark.parametrize(
    "limit",
    ["", "0", "-1", "-100", "00", "-0", "1.0", "1.5", "1e1", "+1", " 1", "1 ", "ten", "NaN", "0x10", "\uff11", "\u0661",
     "null",      "true", "1,2", "-" * 50, "1\n", "-" + "9" * 5000],
)  # fmt: skip
def test_a_limit_below_1_or_not_an_integer_is_400(api, limit):
    assert faulty_params(api.get(PATH, {"limit": limit})) == ["limit"]


# --- Cursors
@pytest.mark.parametrize("limit", [1, 7, 25, 50, 100])
def test_pages_hold_every_entry_once_in_order(api, agent, hundred, limit):
    pages = walk(api, {"agentId": agent.id, "limit": limit})

    assert [name for page in pages for name in page] == hundred
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert 1 <= len(pages[-1]) <= limit


def test_the_last_page_has_no_cursor_even_when_it_is_full(api, agent, service):
    made = fill(agent, service, 4)

    assert walk(api, {"agentId": agent.id, "limit": 2}) == [made[:2], made[2:]]
    assert walk(api, {"agentId": agent.id, "limit": 4}) == [made]


@pytest.mark.parametrize("result", ["approved", "blocked"])
def test_pages_keep_to_their_filters(api, agent, service, result):
    made = fill(agent, service, 12)
    wanted = [name for name in made if LogEntry.objects.get(pk=name).result == result]

    assert [name for page in walk(api, {"agentId": agent.id, "result": result, "limit": 3}) for name in page] == wanted


def test_pages_of_all_agents_hold_every_entry_once(api, agent, service):
    other = make_agent()
    start = utc_now()
    made = fill(agent, service, 5, start=start) + fill(other, service, 5, start=start)

    shown = [name for page in walk(api, {"limit": 3}, at_most=5) for name in page]

    assert shown == sorted(shown, reverse=True)
    assert len(shown) == len(set(shown))
    assert set(made) <= set(shown)


def test_pages_stay_stable_while_new_entries_arrive(api, agent, service):
    made = fill(agent, service, 6)
    for query in ({"agentId": agent.id, "limit": 2}, {"limit": 2}):
        first = api.get(PATH, query)
        newest = decide(agent, service, "0.01").id

        second = api.get(PATH, {**query, "cursor": first.json()["nextCursor"]})

        assert newest not in ids(second)
        shown = ids(first) + ids(second)
        assert shown == made[:4]
        made.insert(0, newest)


def test_a_cursor_may_be_used_again_and_with_another_limit(api, agent, service):
    made = fill(agent, service, 8)
    cursor = api.get(PATH, {"agentId": agent.id, "limit": 2}).json()["nextCursor"]

    for limit in (1, 3, 100):
        assert ids(api.get(PATH, {"agentId": agent.id, "limit": limit, "cursor": cursor})) == made[2 : 2 + limit]


def test_a_cursor_is_url_safe_and_tells_nothing(api, agent, service):
    fill(agent, service, 2)

    cursor = api.get(PATH, {"agentId": agent.id, "limit": 1}).json()["nextCursor"]

    assert re.fullmatch(r"[A-Za-z0-9._~-]+", cursor)
    assert agent.id not in cursor


def test_a_cursor_belongs_to_its_filters(api, agent, service):
    fill(agent, service, 8)
    queries = [
        {}, {"agentId": agent.id}, {"result": "approved"}, {"agentId": agent.id, "result": "approved"},
        {"agentId": agent.id, "result": "blocked"}, {"agentId": make_agent().id},
    ]  # fmt: skip
    for made_for in queries[:5]:
        cursor = api.get(PATH, {**made_for, "limit": 1}).json()["nextCursor"]
        assert cursor is not None
        for query in queries:
            response = api.get(PATH, {**query, "cursor": cursor})
            if query == made_for:
                assert response.status_code == 200
            else:
                assert faulty_params(response) == ["cursor"]


def test_a_damaged_cursor_is_400(api, agent, service):
    fill(agent, service, 2)
    query = {"agentId": agent.id, "limit": 1}
    cursor = api.get(PATH, query).json()["nextCursor"]

    damaged = [
        cursor[:-1],
        cursor[1:],
        cursor + "x",
        cursor.upper(),
        cursor.replace(".", "", 1),
        f" {cursor} x",
        cursor * 2,
    ]
    damaged += [
        cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        for place in range(0, len(cursor), 7)
    ]
    for wrong in damaged:
        assert faulty_params(api.get(PATH, {**query, "cursor": wrong})) == ["cursor"], wrong


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "null", "0", "log_01h00000000000000000000000", "eyJpZCI6MX0", "a.b.c", "\u00fc", "\x00", "." * 10,
     "x" * 10_000,      "eyJpZCI6MX0:1sTest:abc"],
)  # fmt: skip
def test_a_cursor_that_was_made_elsewhere_is_400(api, cursor):
    assert faulty_params(api.get(PATH, {"cursor": cursor})) == ["cursor"]


def test_a_cursor_signed_with_another_key_is_400(api, settings):
    cursor = write_cursor("log_01h00000000000000000000000", {"agentId": None, "result": None})
    assert api.get(PATH, {"cursor": cursor}).status_code == 200

    settings.SECRET_KEY = "another"

    assert faulty_params(api.get(PATH, {"cursor": cursor})) == ["cursor"]


@pytest.mark.parametrize("query", ["agentId=%00", "agentId=a%00b", "result=%00", "limit=%00", "cursor=%00"])
def test_u0000_in_a_query_is_400(api, query):
    assert faulty_params(api.get(f"{PATH}?{query}")) == [query.partition("=")[0]]


@pytest.mark.parametrize("query", ["", "&&&", "limit=5&limit=5", "limit=5&&result=blocked&"])
def test_a_query_of_any_form_is_read(api, query):
    assert api.get(f"{PATH}?{query}").status_code == 200


def test_a_query_of_a_thousand_parameters_is_too_many(api):
    error_of(api.get(f"{PATH}?" + "a=1&" * 1001), 400, "invalid_request")


def test_every_fault_of_a_query_is_named(api):
    assert set(faulty_params(api.get(PATH, {"limit": "x", "result": "y"}))) == {"limit", "result"}
