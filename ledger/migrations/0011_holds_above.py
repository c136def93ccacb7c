"""What waits for a person's approval counts at the agents above its own, which find it by an index."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from foundation.repeatable_migrations import AddMissingField


class Migration(migrations.Migration):
    atomic = False  # holds are read by every payment of their agent

    dependencies = (("ledger", "0010_levels"),)
    operations = (
        AddMissingField("hold", "ancestors", ArrayField(models.CharField(db_collation="C", max_length=255), null=True)),
        # What was left of an index by a run that was interrupted is not one, and goes first.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS hold_by_ancestor", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "hold",
            GinIndex(
                name="hold_by_ancestor",
                fields=["ancestors"],
                fastupdate=False,
                condition=Q(ended_at=None, ancestors__isnull=False),
            ),
        ),
    )
