from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

INDEXES = (
    models.Index(condition=models.Q(("status", "failed")), fields=["id"], name="payment_failed"),
    models.Index(fields=["agent", "created_at", "id"], name="payment_by_agent_and_time"),
    models.Index(fields=["service", "created_at", "id"], name="payment_by_service"),
    models.Index(fields=["agent", "service", "amount", "created_at", "id"], name="payment_by_purchase"),
)


class Migration(migrations.Migration):
    atomic = False  # a long table is indexed while payments go on

    dependencies = [
        ("payments", "0012_fewer_index_writes"),
    ]

    # What was left of an index by a run that was interrupted is not one, and goes first.
    operations = [
        operation
        for index in INDEXES
        for operation in (
            migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", migrations.RunSQL.noop),
            AddIndexConcurrently(model_name="payment", index=index),
        )
    ]
