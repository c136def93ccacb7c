from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

import payments.lifecycle

S = payments.lifecycle.SettlementState
INDEXES = (
    models.Index(
        condition=models.Q(
            ("cost", None),
            ("most_cost__isnull", False),
            ("state__in", (S["SIGNED"], S["BROADCAST"], S["INCLUDED"], S["FINAL"], S["FAILED"])),
        ),
        fields=["agent", "chain"],
        include=("most_cost",),
        name="settlement_gas_at_most",
    ),
    models.Index(
        condition=models.Q(
            ("cost", None),
            ("most_cost__isnull", False),
            ("state__in", (S["FINAL"], S["REPLACED"], S["EXPIRED"], S["FAILED"])),
        ),
        fields=["chain", "changed_at"],
        name="settlement_gas_to_be_told",
    ),
)


class Migration(migrations.Migration):
    atomic = False  # a long table is indexed while payments go on

    dependencies = [
        ("payments", "0010_gas_money"),
    ]

    # What was left of an index by a run that was interrupted is not one, and goes first.
    operations = [
        operation
        for index in INDEXES
        for operation in (
            migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", migrations.RunSQL.noop),
            AddIndexConcurrently(model_name="settlement", index=index),
        )
    ]
