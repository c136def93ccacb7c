"""Agents may have a parent: all that are above one are a column of it."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from foundation.repeatable_migrations import AddMissingField


class Migration(migrations.Migration):
    atomic = False  # every payment locks an agent

    dependencies = (("policy", "0010_revision_by_template"),)
    operations = (
        AddMissingField(
            "agent",
            "ancestors",
            ArrayField(
                models.CharField(db_collation="C", max_length=255),
                null=True,
                help_text="All agents above it, root first; null: it was never part of a tree.",
            ),
        ),
        # What was left of an index by a run that was interrupted is not one, and goes first.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS agent_by_ancestor", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "agent",
            GinIndex(name="agent_by_ancestor", fields=["ancestors"], condition=Q(ancestors__isnull=False)),
        ),
    )
