"""Payments counted by number and by payee, for the optional limits that need it (`ledger/sql/tallies.sql`)."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from policy.fields import AmountField

_AGENT = models.ForeignKey(
    "policy.agent", on_delete=django.db.models.deletion.PROTECT, db_index=False, db_constraint=False
)


class Migration(migrations.Migration):
    dependencies = (("ledger", "0006_decision_in_words"), ("policy", "0007_optional_limits"))
    operations = (
        migrations.CreateModel(
            name="Tally",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "agent_id", "payee", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("agent", _AGENT),
                ("payee", models.CharField(db_collation="C", max_length=255)),
                ("payments", models.BigIntegerField()),
                ("spent", AmountField()),
                ("returned_payments", models.BigIntegerField()),
                ("returned", AmountField()),
                ("entry_id", models.CharField(max_length=30, null=True)),
            ],
            options={"verbose_name_plural": "tallies"},
        ),
        migrations.CreateModel(
            name="TallyMark",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "agent_id", "payee", "at", "payments",
                        blank=True, editable=False, primary_key=True, serialize=False,
                    ),
                ),
                ("agent", _AGENT.clone()),
                ("payee", models.CharField(db_collation="C", max_length=255)),
                ("at", models.DateTimeField()),
                ("payments", models.BigIntegerField()),
                ("spent", AmountField()),
                ("carried", AmountField(null=True)),
                ("carried_until", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(carried_until__isnull=False),
                        fields=["agent", "payee", "carried_until"],
                        name="tally_carried",
                    )
                ]
            },
        ),
    )  # fmt: skip
