"""What nodes contradict each other about: which of them do, and from where on nothing is given back by the history.

Processes of the release before write neither column; theirs is a search on which all nodes agree.
"""

from django.db import migrations, models

from foundation.repeatable_migrations import AddMissingField


class Migration(migrations.Migration):
    atomic = False  # payments go on: whoever waits for one table must not hold another one

    dependencies = (("payments", "0014_authorizations"),)
    operations = (
        AddMissingField("chainstate", "contradictions", models.JSONField(db_default={}, default=dict)),
        AddMissingField(
            "depositcursor",
            "disputed_after",
            models.PositiveBigIntegerField(
                help_text="Up to this block all nodes say the same of what was searched. Null: of all of it.", null=True
            ),
        ),
    )
