"""PostgreSQL alone writes the rows that a payment writes: else the comparison with it would mean nothing."""

from pathlib import Path

import pytest
from django.db import connection

from ledger.models import BalanceMovement, LogEntry
from payments.models import Leg, Payment, Settlement
from policy.models import Agent
from tests.benchmarks.baseline import make_relayers
from tests.support.factories import decide, make_agent

BASELINE = Path(__file__).parent / "baseline.sql"
# Of which rows of each are an agent's.
TABLES = {
    LogEntry: "agent", Payment: "agent", Settlement: "first_payment__agent", Leg: "agent", BalanceMovement: "agent",
    Agent: "pk",
}  # fmt: skip


@pytest.mark.django_db
def test_the_baseline_writes_the_rows_of_a_payment(service):
    paid, beside = make_agent(), make_agent()
    make_relayers()
    decide(paid, service, "0.01")
    with connection.cursor() as cursor:
        cursor.execute(BASELINE.read_text())
        cursor.execute(
            "SELECT bench_write_payment(%s, %s, (SELECT id FROM payments_relayer WHERE number = 2000))",
            [beside.pk, service.pk],
        )

    for model in TABLES:
        assert filled(model, beside) == filled(model, paid)
        assert widths(model, beside) == pytest.approx(widths(model, paid), rel=0.25)


def filled(model, agent):
    """Name the columns that have a value in the newest row of an agent."""
    row = newest(model, agent)
    return {field.name for field in row._meta.fields if getattr(row, field.attname) not in (None, "", b"")}


def widths(model, agent):
    """Measure the newest row of an agent in bytes of text."""
    row = newest(model, agent)
    return sum(len(str(getattr(row, field.attname) or "")) for field in row._meta.fields)


def newest(model, agent):
    return model.objects.filter(**{TABLES[model]: agent.pk}).order_by("-pk").first()
