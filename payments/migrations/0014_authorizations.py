"""Payments that their payees take themselves (x402), by an authorization of the escrow instead of a transaction of ours.

The columns are null in all rows that there are, and in those that processes of the release before write.
"""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

from foundation.repeatable_migrations import AddMissingField

_WHOLLY = models.CheckConstraint(
    name="payment_authorized_wholly",
    condition=Q(authorizer=None, authorized_token=None, authorized_until=None)
    | Q(authorizer__isnull=False, authorized_token__isnull=False, authorized_until__isnull=False),
)


class Migration(migrations.Migration):
    atomic = False  # a long table is read while payments go on

    dependencies = (("payments", "0013_read_indexes"),)
    operations = (
        AddMissingField("payment", "authorizer", models.CharField(max_length=42, null=True)),
        AddMissingField("payment", "authorized_token", models.CharField(max_length=42, null=True)),
        AddMissingField("payment", "authorized_until", models.DateTimeField(null=True)),
        migrations.RunSQL(
            f"ALTER TABLE payments_payment DROP CONSTRAINT IF EXISTS {_WHOLLY.name}", migrations.RunSQL.noop
        ),
        AddConstraintNotValid("payment", _WHOLLY),
        ValidateConstraint("payment", _WHOLLY.name),
    )
