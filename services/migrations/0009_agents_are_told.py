"""Events and endpoints may be an agent's: its owner is told at a URL of the agent.

The id of an endpoint stays where it is, in `service_id`, but may be an agent's now, so its foreign key goes. Processes of
the release before go on: they read the endpoints of services alone, and write no events of agents.
"""

from pathlib import Path

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import F, Q, Value
from django.db.models.functions import Concat

from foundation.repeatable_migrations import AddMissingField

_SQL = Path(__file__).parent.parent / "sql" / "agent_deliveries.sql"
_AGENT = models.ForeignKey(
    "policy.agent", on_delete=django.db.models.deletion.PROTECT, db_index=False, db_constraint=False, null=True
)
_SERVICE = models.ForeignKey("services.service", on_delete=django.db.models.deletion.PROTECT, db_index=False, null=True)
_SAME_ID = models.ForeignObject(
    "services.service",
    on_delete=django.db.models.deletion.DO_NOTHING,
    from_fields=("id",),
    to_fields=("id",),
    null=True,
    related_name="+",
)
_CONSTRAINTS = (
    (
        "webhookendpoint",
        models.CheckConstraint(
            name="webhook_endpoint_of_service_or_agent",
            condition=(Q(agent=None, url=None) & ~Q(id__startswith="@"))
            | Q(agent__isnull=False, id=Concat(Value("@"), F("agent"))),
        ),
    ),
    (
        "webhookevent",
        models.CheckConstraint(
            name="webhook_event_has_one_receiver",
            condition=Q(service__isnull=False, agent=None) | Q(service=None, agent__isnull=False),
        ),
    ),
)
# It locks the table of payees as well, for a moment: it waits for one of the two alone, briefly, and then takes the other
# only if nobody has it. So it keeps payments out of neither while it waits for the other.
_DROP_FOREIGN_KEY = """
DO $$
DECLARE
    known text;
BEGIN
    LOOP
        SELECT conname INTO known FROM pg_constraint
         WHERE conrelid = 'services_webhookendpoint'::regclass AND confrelid = 'services_service'::regclass;
        EXIT WHEN known IS NULL;
        BEGIN
            SET LOCAL lock_timeout = '200ms';
            LOCK TABLE services_service IN ACCESS EXCLUSIVE MODE;
            LOCK TABLE services_webhookendpoint IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('ALTER TABLE services_webhookendpoint DROP CONSTRAINT %I', known);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.1);
        END;
    END LOOP;
END $$
"""
_FORGET_AGENTS = """
DROP FUNCTION IF EXISTS services_deliver_agent_event CASCADE;
DELETE FROM services_webhookattempt WHERE endpoint_id LIKE '@%';
DELETE FROM services_webhookdelivery WHERE endpoint_id LIKE '@%';
DELETE FROM services_webhooksecret WHERE endpoint_id LIKE '@%';
DELETE FROM services_webhookendpoint WHERE service_id LIKE '@%';
DELETE FROM services_webhookevent WHERE service_id IS NULL;
"""
_RESTORE_FOREIGN_KEY = """
ALTER TABLE services_webhookendpoint ADD CONSTRAINT services_webhookendpoint_service_id_fk FOREIGN KEY (service_id)
    REFERENCES services_service (id) DEFERRABLE INITIALLY DEFERRED
"""


class Migration(migrations.Migration):
    atomic = False  # a long table is read while payments go on

    dependencies = (("services", "0008_payee_in_words"), ("policy", "0007_optional_limits"))
    operations = (
        AddMissingField("webhookendpoint", "agent", _AGENT),
        AddMissingField(
            "webhookendpoint", "url", models.CharField(help_text="Of an agent.", max_length=2048, null=True)
        ),
        AddMissingField("webhookevent", "agent", _AGENT),
        migrations.RunSQL(
            "ALTER TABLE services_webhookevent ALTER COLUMN service_id DROP NOT NULL",
            "ALTER TABLE services_webhookevent ALTER COLUMN service_id SET NOT NULL",
            state_operations=[migrations.AlterField("webhookevent", "service", _SERVICE)],
        ),
        migrations.RunSQL(
            _DROP_FOREIGN_KEY,
            _RESTORE_FOREIGN_KEY,
            state_operations=[
                migrations.RemoveField("webhookendpoint", "service"),
                migrations.AddField(
                    "webhookendpoint",
                    "id",
                    models.CharField(
                        db_collation="C", db_column="service_id", max_length=128, primary_key=True, serialize=False
                    ),
                ),
                migrations.AddField("webhookendpoint", "service", _SAME_ID),
            ],
        ),
        *(
            operation
            for model, one in _CONSTRAINTS
            for operation in (
                migrations.RunSQL(
                    f"ALTER TABLE services_{model} DROP CONSTRAINT IF EXISTS {one.name}", migrations.RunSQL.noop
                ),
                AddConstraintNotValid(model, one),
                ValidateConstraint(model, one.name),
            )
        ),
        migrations.RunSQL(_SQL.read_text(), _FORGET_AGENTS),
    )
