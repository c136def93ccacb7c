"""How payments are listed when they are many: by an index that fits, each payment looked up once."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from foundation.kernel.ids import new_id, time_of
from payments.models import Payment
from payments.payment_states import PaymentFilters, payment_page, read_payment_page
from tests.support.factories import decide, make_agent, make_service

STARTED_AT = datetime(2026, 11, 20, tzinfo=UTC)
_COUNT = 12_000
# Copies of one real payment, its entry and its transaction, under other ids: a few failed, a few to another service.
_COPIES = """
    CREATE TEMPORARY TABLE copies ON COMMIT DROP AS
        SELECT n, id, at, n %% 3000 = 7 AS is_failed, n %% 2000 = 5 AS is_other, n %% 2500 = 11 AS is_large
          FROM unnest(%(ids)s::text[], %(times)s::timestamptz[]) WITH ORDINALITY AS rows(id, at, n);
    INSERT INTO ledger_logentry
        SELECT (jsonb_populate_record(e, jsonb_build_object(
                    'id', 'log_' || substr(c.id, 5), 'payment_id', c.id, 'created_at', c.at,
                    'agent_id', %(agent)s::text, 'idempotency_key', 'key-' || c.n))).*
          FROM ledger_logentry e, copies c WHERE e.payment_id = %(payment)s;
    INSERT INTO payments_payment
        SELECT (jsonb_populate_record(p, jsonb_build_object(
                    'id', c.id, 'entry_id', 'log_' || substr(c.id, 5), 'created_at', c.at, 'agent_id', %(agent)s::text,
                    'escrow_id', c.id, 'status', CASE WHEN c.is_failed THEN 'failed' ELSE 'settled' END,
                    'settled_at', CASE WHEN NOT c.is_failed THEN c.at END,
                    'failed_at', CASE WHEN c.is_failed THEN c.at END,
                    'service_id', CASE WHEN c.is_other THEN %(other)s ELSE p.service_id END,
                    'amount', CASE WHEN c.is_large THEN 9 ELSE 1 END))).*
          FROM payments_payment p, copies c WHERE p.id = %(payment)s;
    INSERT INTO payments_settlement
        SELECT (jsonb_populate_record(s, jsonb_build_object(
                    'tx', 'tx-' || c.n, 'payment_id', c.id, 'state', 'final', 'nonce', NULL, 'created_at', c.at))).*
          FROM payments_settlement s, copies c WHERE s.payment_id = %(payment)s;
"""


@pytest.fixture
def many(db):
    """Many payments of an agent, and as many of another one: the agent, and the service that it paid a few times."""
    service, other = make_service(), make_service()
    agents = [make_agent() for _ in range(2)]
    original = decide(make_agent(), service)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # balances are not what is read here
        for number, agent in enumerate(agents):
            times = [STARTED_AT + timedelta(seconds=second, milliseconds=number) for second in range(_COUNT)]
            ids = [new_id("pay", moment) for moment in times]
            cursor.execute(
                _COPIES.replace("copies", f"copies_{number}").replace("'tx-'", f"'tx-{number}-'"),
                {"ids": ids, "times": times, "agent": agent.id, "payment": original.payment_id, "other": other.id},
            )
        for table in ("ledger_logentry", "payments_payment", "payments_settlement"):
            # What other tests inserted and rolled back is still in the indexes, and would mislead the planner.
            cursor.execute(f"REINDEX TABLE {table}")
            cursor.execute(f"ANALYZE {table}")
    return agents[0], other


def plan_of(statement, parameters):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
        return cursor.fetchone()[0][0]["Plan"]


def nodes_of(plan):
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes_of(inner)


def test_a_page_reads_no_payment_that_it_does_not_show(many):
    """However far from the newest payment it begins, and however rare is what is looked for."""
    agent, other = many
    far = Payment.objects.filter(agent=agent).order_by("-id")[6000]
    asked = {
        "all": PaymentFilters(),
        "of an agent": PaymentFilters(agent_id=agent.id),
        "of a service": PaymentFilters(service_id=other.id),
        "that failed": PaymentFilters(status="failed"),
        "that are under way": PaymentFilters(status="approved"),
        "since": PaymentFilters(agent_id=agent.id, since=time_of(far.id)),
        "of a purchase": PaymentFilters(agent_id=agent.id, service_id=other.id, amount=Decimal(9)),
        "of a key": PaymentFilters(agent_id=agent.id, idempotency_key="key-77"),
    }
    for name, filters in asked.items():
        for before_id in (None, far.id):
            plan = plan_of(*payment_page(filters, before_id=before_id, size=26))

            scans = [node for node in nodes_of(plan) if "Scan" in node["Node Type"]]
            assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}, (name, plan)
            of_payments = [node for node in scans if node["Relation Name"] == "payments_payment"]
            assert [node.get("Rows Removed by Filter", 0) for node in of_payments] in ([0], [1]), (name, plan)
            assert of_payments[0]["Actual Rows"] <= 26, (name, plan)


def test_of_several_filters_the_rarest_leads(many):
    agent, other = many
    for filters in (
        PaymentFilters(agent_id=agent.id, service_id=other.id),
        PaymentFilters(agent_id=agent.id, status="failed"),
        PaymentFilters(agent_id=agent.id, status="approved", service_id=other.id, amount=Decimal(9)),
    ):
        plan = plan_of(*payment_page(filters, before_id=None, size=26))

        assert sum(node.get("Rows Removed by Filter", 0) for node in nodes_of(plan)) < 30, (filters, plan)
        assert "Seq Scan" not in {node["Node Type"] for node in nodes_of(plan)}


def test_a_page_looks_up_each_of_its_payments_also_by_a_plan_that_is_kept(many):
    agent, _ = many
    filters = PaymentFilters(agent_id=agent.id)

    for _ in range(8):  # from the sixth time on the session may keep the plan
        page, has_more = read_payment_page(filters, before_id=None, size=25)
    assert (len(page), has_more) == (25, True)
    ids, parameters = payment_page(filters, before_id=None, size=26)
    plan = plan_of(f"SELECT * FROM payments_states(ARRAY({ids}))", parameters)  # noqa: S608 - our own names

    # 26 payments, an entry and a transaction of each, by indexes of some levels: whole tables are hundreds.
    assert plan["Actual Rows"] == 26
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 26 * 3 * 6
