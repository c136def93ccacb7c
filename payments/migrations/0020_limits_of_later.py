"""A process of release 0.3 decides nothing for an agent whose policy has optional limits, which it does not know.

It records through a function of its own, which is still in the database: that one asks first now. While both releases
run, such a request gets an error there, and nothing is stored. Goes with the release after this one.
"""

from django.db import migrations

ASK_FIRST = """
    DO $do$ BEGIN
        IF to_regprocedure('payments_record_batch(json, json, json, json, json, json)') IS NULL
           OR to_regprocedure('payments_record_batch_0_3(json, json, json, json, json, json)') IS NOT NULL THEN
            RETURN;
        END IF;
        ALTER FUNCTION payments_record_batch(json, json, json, json, json, json) RENAME TO payments_record_batch_0_3;
        CREATE FUNCTION payments_record_batch(
            p_entries json, p_agents json, p_payments json, p_settlements json, p_movements json, p_events json
        ) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (
                SELECT FROM json_to_recordset(p_agents) AS d(id text) JOIN policy_agent a ON a.id = d.id
                  JOIN policy_policyrevision p ON p.agent_id = a.id AND p.number = a.policy_revision
                 WHERE p.more_json <> '{}'
            ) THEN
                RAISE EXCEPTION 'This release does not know the limits of the agent.' USING ERRCODE = 'lock_not_available';
            END IF;
            PERFORM payments_record_batch_0_3(p_entries, p_agents, p_payments, p_settlements, p_movements, p_events);
        END $$;
    END $do$;
"""


class Migration(migrations.Migration):
    dependencies = (("payments", "0019_legs_of_before"), ("policy", "0007_optional_limits"))
    operations = (migrations.RunSQL(ASK_FIRST, migrations.RunSQL.noop),)
