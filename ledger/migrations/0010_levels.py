"""What agents pay is counted by those above them as well."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from policy.fields import AmountField


class Migration(migrations.Migration):
    dependencies = (("ledger", "0009_held_entries"), ("policy", "0011_parents"))
    operations = (
        migrations.CreateModel(
            name="LevelPayment",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "level_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "level",
                    models.ForeignKey(
                        "policy.agent", db_index=False, db_constraint=False, on_delete=django.db.models.deletion.PROTECT
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("payment_id", models.CharField(db_collation="C", max_length=30)),
                ("payee", models.CharField(db_collation="C", max_length=255)),
                ("at", models.DateTimeField()),
                ("amount", AmountField()),
                ("spent", AmountField()),
                ("payee_number", models.BigIntegerField()),
                ("payee_spent", AmountField()),
                ("is_returned", models.BooleanField(db_default=False, default=False)),
                ("carried_until", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(name="level_by_time", fields=["level", "at", "number"]),
                    models.Index(name="level_by_payee", fields=["level", "payee", "at", "number"]),
                    models.Index(
                        name="level_carried",
                        fields=["level", "carried_until"],
                        condition=Q(carried_until__isnull=False),
                    ),
                    models.Index(name="level_returned", fields=["level", "at"], condition=Q(is_returned=True)),
                ],
                "constraints": [
                    models.UniqueConstraint(name="level_counts_once", fields=["payment_id", "level"]),
                    models.CheckConstraint(name="level_amount_positive", condition=Q(amount__gt=0)),
                ],
            },
        ),
    )
