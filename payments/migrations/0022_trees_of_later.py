"""A process of release 0.3 decides nothing for an agent that is in a tree, either: it would not count what those below pay.

See migration 0020, whose function this replaces. Goes with the release after this one.
"""

from django.db import migrations

ASK_FOR_MORE_FIRST = """
    DO $do$ BEGIN
        IF to_regprocedure('payments_record_batch_0_3(json, json, json, json, json, json)') IS NULL THEN
            RETURN;
        END IF;
        CREATE OR REPLACE FUNCTION payments_record_batch(
            p_entries json, p_agents json, p_payments json, p_settlements json, p_movements json, p_events json
        ) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (
                SELECT FROM json_to_recordset(p_agents) AS d(id text) JOIN policy_agent a ON a.id = d.id
                  JOIN policy_policyrevision p ON p.agent_id = a.id AND p.number = a.policy_revision
                 WHERE p.more_json <> '{}' OR a.ancestors IS NOT NULL
            ) THEN
                RAISE EXCEPTION 'This release does not know the limits of the agent.' USING ERRCODE = 'lock_not_available';
            END IF;
            PERFORM payments_record_batch_0_3(p_entries, p_agents, p_payments, p_settlements, p_movements, p_events);
        END $$;
    END $do$;
"""


class Migration(migrations.Migration):
    dependencies = (("payments", "0021_approved_later"), ("policy", "0011_parents"))
    operations = (migrations.RunSQL(ASK_FOR_MORE_FIRST, migrations.RunSQL.noop),)
