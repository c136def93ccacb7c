"""Decisions that hold a payment for a person's approval are counted by themselves.

The constraint becomes weaker, so that every row there satisfies it, and processes of the release before go on.
"""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

_RESULTS = [("approved", "Approved"), ("blocked", "Blocked"), ("held", "Held"), ("failed", "Failed")]
_KNOWN = models.CheckConstraint(
    name="daily_total_result_known", condition=Q(result__in=[value for value, _ in _RESULTS])
)


class Migration(migrations.Migration):
    atomic = False  # totals are added up meanwhile

    dependencies = (("backoffice", "0003_alarms_of_roles"),)
    operations = (
        migrations.AlterField("dailytotal", "result", models.CharField(choices=_RESULTS, max_length=8)),
        migrations.RunSQL(
            f"ALTER TABLE backoffice_dailytotal DROP CONSTRAINT IF EXISTS {_KNOWN.name}",
            migrations.RunSQL.noop,
            state_operations=[migrations.RemoveConstraint("dailytotal", _KNOWN.name)],
        ),
        AddConstraintNotValid("dailytotal", _KNOWN),
        ValidateConstraint("dailytotal", _KNOWN.name),
    )
