"""Policies may have optional limits. A release until 0.3, which knows of none, keeps those that there are."""

from django.db import migrations, models

# Goes with the release after this one.
_WHAT_THE_RELEASE_BEFORE_WRITES = """
    CREATE OR REPLACE FUNCTION policy_keep_limits() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        SELECT p.more_json, p.counts_payments INTO NEW.more_json, NEW.counts_payments
          FROM policy_policyrevision p WHERE p.agent_id = NEW.agent_id AND p.number = NEW.number - 1;
        NEW.counts_payments := COALESCE(NEW.counts_payments, false);
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER keep_limits BEFORE INSERT ON policy_policyrevision
        FOR EACH ROW WHEN (NEW.more_json IS NULL) EXECUTE FUNCTION policy_keep_limits();
"""


class Migration(migrations.Migration):
    dependencies = (("policy", "0006_own_payees"),)
    operations = (
        migrations.AddField(
            model_name="policyrevision",
            name="more_json",
            field=models.TextField(help_text="The optional limits.", null=True),
        ),
        migrations.AddField(
            model_name="policyrevision",
            name="counts_payments",
            field=models.BooleanField(
                db_default=False, default=False, help_text="A limit needs payments counted by number or by payee."
            ),
        ),
        migrations.RunSQL(_WHAT_THE_RELEASE_BEFORE_WRITES, "DROP FUNCTION policy_keep_limits CASCADE"),
    )
