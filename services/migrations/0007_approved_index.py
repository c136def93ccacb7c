from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

INDEXES = (models.Index(condition=models.Q(("status", "approved")), fields=["id"], name="service_approved"),)


class Migration(migrations.Migration):
    atomic = False  # services are registered meanwhile

    dependencies = [
        ("services", "0006_earlier_registrations"),
    ]

    # What was left of an index by a run that was interrupted is not one, and goes first.
    operations = [
        operation
        for index in INDEXES
        for operation in (
            migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", migrations.RunSQL.noop),
            AddIndexConcurrently(model_name="service", index=index),
        )
    ]
