"""The agents that follow a template are found by an index, which is built while payments go on."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False  # revisions are read by every payment, and there may be many

    dependencies = (("policy", "0009_templates"),)
    operations = (
        # What was left of an index by a run that was interrupted is not one, and goes first.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS revision_by_template", migrations.RunSQL.noop),
        AddIndexConcurrently(
            "policyrevision",
            models.Index(name="revision_by_template", fields=("template", "agent"), condition=~Q(template="")),
        ),
    )
