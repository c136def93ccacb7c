"""A decision may hold a payment for a person's approval.

The constraints become weaker, so that every row there is satisfies them, and processes of the release before go on.
"""

from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

_RESULTS = [("approved", "Approved"), ("blocked", "Refused"), ("held", "Held for approval")]
_CONSTRAINTS = (
    models.CheckConstraint(name="log_result_known", condition=Q(result__in=[value for value, _ in _RESULTS])),
    models.CheckConstraint(
        name="log_only_approved_pays",
        condition=Q(result="approved", payment_id__isnull=False)
        | Q(result="blocked", payment_id__isnull=True, tx__isnull=True)
        | Q(result="held", payment_id__isnull=False, tx__isnull=True),
    ),
)


class Migration(migrations.Migration):
    atomic = False  # a long table is read while payments go on

    dependencies = (("ledger", "0008_holds"),)
    operations = (
        migrations.AlterField("logentry", "result", models.CharField(choices=_RESULTS, max_length=8)),
        *(
            operation
            for one in _CONSTRAINTS
            for operation in (
                migrations.RunSQL(
                    f"ALTER TABLE ledger_logentry DROP CONSTRAINT IF EXISTS {one.name}",
                    migrations.RunSQL.noop,
                    state_operations=[migrations.RemoveConstraint("logentry", one.name)],
                ),
                AddConstraintNotValid("logentry", one),
                ValidateConstraint("logentry", one.name),
            )
        ),
        # What was left of an index by a run that was interrupted is not one, and goes first.
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS log_held", migrations.RunSQL.noop),
        AddIndexConcurrently("logentry", models.Index(name="log_held", fields=["id"], condition=Q(result="held"))),
    )
