"""Write fewer indexes for each payment, and move its agent and relayer within their pages.

Django gives each text that is a key a second index, for searches by prefix in other collations than C. These ids have
the collation C, so the first index serves both.
"""

from typing import Any

from django.db import migrations

_UNREAD = r"""
SELECT quote_ident(indexname) FROM pg_indexes
 WHERE schemaname = current_schema() AND indexname LIKE '%\_like'
   AND tablename IN ('ledger_logentry', 'payments_payment', 'payments_settlement', 'payments_transition',
                     'policy_agent', 'services_webhookevent', 'services_webhookdelivery')
"""
# Room for the new versions of rows that each payment changes: their indexes need no new entries then (HOT updates).
_LEAVE_ROOM = """
ALTER TABLE policy_agent SET (fillfactor = 60);
ALTER TABLE payments_relayer SET (fillfactor = 60);
"""


def drop_unread_indexes(_apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_UNREAD)
        unread = [name for (name,) in cursor]
    for name in unread:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


class Migration(migrations.Migration):
    atomic = False  # payments go on: whoever waits for one table must not hold another one

    dependencies = (
        ("payments", "0011_gas_indexes"),
        ("ledger", "0004_log_by_result"),
        ("policy", "0002_signer_in_service"),
        ("services", "0004_rotated_secrets"),
    )
    operations = (
        migrations.RunPython(drop_unread_indexes, migrations.RunPython.noop),
        migrations.RunSQL(
            _LEAVE_ROOM,
            "ALTER TABLE policy_agent RESET (fillfactor); ALTER TABLE payments_relayer RESET (fillfactor)",
        ),
    )
