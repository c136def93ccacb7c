"""What settlement costs does not depend on how many payments were settled before."""

from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from foundation.kernel.times import utc_now
from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.transaction_costs import read_costs
from tests.support.scenes import HOUR, Scene, state_of, transaction_of

S = SettlementState
PAST = 5_000
LINE = settings.MAX_IN_FLIGHT_PER_RELAYER


@pytest.fixture
def past(db: None, has_nonces: bool) -> Scene:
    """A chain on which one relayer has 5,000 transactions behind it. With nonces, there is another that is new."""
    scene = Scene(relayers=2, has_nonces=has_nonces)
    relayer, now = scene.relayer(), utc_now()
    Settlement.objects.bulk_create(
        Settlement(
            tx=f"{scene.chain.name} {number}",
            chain=scene.chain.name,
            relayer=relayer,
            nonce=number if has_nonces else None,
            raw=b"",
            state="final" if number % 10 else "replaced" if has_nonces else "expired",
            block_number=number,
            created_at=now,
            changed_at=now,
        )
        for number in range(PAST)
    )
    if has_nonces:
        relayer.next_nonce = relayer.mined_nonce = PAST
        relayer.save()
        scene.chain.mined[relayer.address] = scene.chain.final_nonces[relayer.address] = PAST
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE payments_settlement, payments_payment, payments_relayer")
        # What else is in the tables, and how much, is other tests' doing: that must not make a plan of its own.
        cursor.execute("SET LOCAL enable_seqscan = off")
    return scene


class Meter:
    """Executes each statement on settlements with `EXPLAIN ANALYZE` before; keeps how many rows it looked at."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def __call__(self, execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.startswith("SELECT") and "payments_settlement" in sql:
            execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params, many, context)
            ((plan,),) = context["cursor"].fetchone()
            self.rows[sql] = max(self.rows.get(sql, 0), _rows_looked_at(plan["Plan"]))
        return execute(sql, params, many, context)


def _rows_looked_at(node: dict[str, Any]) -> int:
    rows = sum(_rows_looked_at(child) for child in node.get("Plans", []))
    if node.get("Relation Name") == "payments_settlement":
        once = sum(
            node.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        )
        rows += int(once * node["Actual Loops"])
    return rows


def test_no_step_looks_at_what_was_settled_before(past):
    # Two full queues: chance chooses only whose turn it is.
    payments = [past.pay() for _ in range(2 * LINE)]
    used = {transaction_of(payment).relayer.number for payment in payments}
    assert used == ({0, 1} if past.chain.has_nonces else {0})
    meter = Meter()
    with connection.execute_wrapper(meter):
        past.broadcast()
        past.follow()
        past.tend()
        past.let_pass(HOUR / 2)
        past.raise_fees()
        past.broadcast()
        for payment in payments:
            past.chain.include(transaction_of(payment), is_final=False)
        past.follow()
        past.chain.vanish(transaction_of(payments[2]))
        past.follow()
        past.broadcast()
        past.chain.finalise(past.chain.blocks[transaction_of(payments[0]).tx].block_number)
        past.follow()
        past.pass_deadline(payments[2])
        past.follow()
        read_costs(past.chain.name, past.chain)

    # The nonce of the one that vanished is used by a later one; without nonces it is signed again.
    assert state_of(payments[2]) == (S.FAILED if past.chain.has_nonces else S.SIGNED)
    assert len(meter.rows) > 10
    assert {sql[sql.index(" FROM ") :]: rows for sql, rows in meter.rows.items() if rows > 150} == {}
