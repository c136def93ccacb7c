"""Write fewer indexes for each payment, and move its agent and relayer within their pages.

Django gives each text that is a key a second index, for searches by prefix in other collations than C. These ids have
the collation C, so the first index serves both.
"""

from django.db import migrations

_DROP = r"""
DO $$
DECLARE
    unread text;
BEGIN
    FOR unread IN
        SELECT indexname FROM pg_indexes
         WHERE schemaname = current_schema() AND indexname LIKE '%\_like'
           AND tablename IN ('ledger_logentry', 'payments_payment', 'payments_settlement', 'payments_transition',
                             'policy_agent', 'services_webhookevent', 'services_webhookdelivery')
    LOOP
        EXECUTE format('DROP INDEX %I', unread);
    END LOOP;
END $$
"""
# Room for the new versions of rows that each payment changes: their indexes need no new entries then (HOT updates).
_LEAVE_ROOM = """
ALTER TABLE policy_agent SET (fillfactor = 60);
ALTER TABLE payments_relayer SET (fillfactor = 60);
"""


class Migration(migrations.Migration):
    dependencies = (
        ("payments", "0011_gas_indexes"),
        ("ledger", "0004_log_by_result"),
        ("policy", "0002_signer_in_service"),
        ("services", "0004_rotated_secrets"),
    )
    operations = (
        migrations.RunSQL(_DROP, migrations.RunSQL.noop),
        migrations.RunSQL(
            _LEAVE_ROOM,
            "ALTER TABLE policy_agent RESET (fillfactor); ALTER TABLE payments_relayer RESET (fillfactor)",
        ),
    )
