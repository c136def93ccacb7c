from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

INDEXES = (
    models.Index(condition=models.Q(("result", "approved")), fields=["id"], name="log_approved"),
    models.Index(
        condition=models.Q(("result", "approved")),
        fields=["agent", "created_at", "id"],
        name="log_approved_by_agent",
    ),
    models.Index(
        condition=models.Q(("refused_request__isnull", False)),
        fields=["agent", "refused_request", "created_at"],
        name="log_refused_request",
    ),
)


class Migration(migrations.Migration):
    atomic = False  # a long log is indexed while payments go on

    dependencies = [
        ("ledger", "0003_clocks_and_refusals"),
    ]

    # What was left of an index by a run that was interrupted is not one, and goes first.
    operations = [
        operation
        for index in INDEXES
        for operation in (
            migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", migrations.RunSQL.noop),
            AddIndexConcurrently(model_name="logentry", index=index),
        )
    ]
