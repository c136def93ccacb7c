"""Let an approval have no transaction: its payee takes the money by an authorization (x402), in a transaction of its own.

The constraint becomes weaker, so that every row there is satisfies it, and processes of the release before go on.
"""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

_NAME = "log_only_approved_pays"


class Migration(migrations.Migration):
    atomic = False  # a long table is read while payments go on

    dependencies = (("ledger", "0004_log_by_result"),)
    operations = (
        migrations.RunSQL(
            f"ALTER TABLE ledger_logentry DROP CONSTRAINT IF EXISTS {_NAME}",
            migrations.RunSQL.noop,
            state_operations=[migrations.RemoveConstraint("logentry", _NAME)],
        ),
        AddConstraintNotValid(
            "logentry",
            models.CheckConstraint(
                name=_NAME,
                condition=Q(result="approved", payment_id__isnull=False)
                | Q(result="blocked", payment_id__isnull=True, tx__isnull=True),
            ),
        ),
        ValidateConstraint("logentry", _NAME),
    )
