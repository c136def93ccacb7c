"""The legs of the transactions that there are: 0018 has seen to those that come."""

from typing import Any

from django.db import migrations

_AT_ONCE = 5_000
# A transaction that had made several payments had a row for each of them, with keys such as `id#payment`.
MAKE_LEGS = """
    WITH page AS (
        SELECT tx, payment_id, chain, is_void, state, most_cost, cost FROM payments_settlement
         WHERE tx > %s ORDER BY tx LIMIT %s FOR SHARE  -- what changes meanwhile, the trigger would not find a leg for
    ),
    made AS (
        INSERT INTO payments_leg (payment_id, tx, agent_id, chain, is_void, is_live, most_cost, cost)
        SELECT page.payment_id, split_part(page.tx, '#', 1), payment.agent_id, page.chain, page.is_void,
               page.state IN ('signed', 'broadcast', 'included', 'final'), page.most_cost, page.cost
          FROM page JOIN payments_payment AS payment ON payment.id = page.payment_id
            ON CONFLICT (payment_id, tx) DO NOTHING
    )
    SELECT max(tx) FROM page
"""


def make_legs(_apps: Any, schema_editor: Any) -> None:
    last: str | None = ""
    while last is not None:
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(MAKE_LEGS, [last, _AT_ONCE])
            (last,) = cursor.fetchone()


class Migration(migrations.Migration):
    atomic = False  # payments go on while a long table is read; a run that was interrupted is made again

    dependencies = (("payments", "0018_legs"),)
    operations = (
        migrations.RunPython(make_legs, migrations.RunPython.noop),
        # The legs see to it from here on; until now, it was this index.
        migrations.RunSQL("DROP INDEX IF EXISTS settlement_one_live_per_payment", migrations.RunSQL.noop),
    )
