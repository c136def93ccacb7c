from django.db import migrations, models

import policy.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [("payments", "0012_fewer_index_writes")]

    operations = [
        migrations.CreateModel(
            name="DailyTotal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("agent", models.CharField(db_collation="C", max_length=255)),
                ("service", models.CharField(blank=True, db_collation="C", max_length=255)),
                ("asset", models.CharField(max_length=8)),
                ("chain", models.CharField(blank=True, help_text="CAIP-2; empty: no such service.", max_length=64)),
                (
                    "result",
                    models.CharField(
                        choices=[("approved", "Approved"), ("blocked", "Blocked"), ("failed", "Failed")], max_length=8
                    ),
                ),
                ("rule", models.CharField(max_length=32)),
                ("count", models.PositiveBigIntegerField()),
                ("amount", policy.fields.AmountField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("day", "agent", "service", "asset", "chain", "result", "rule"), name="daily_total_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("result__in", ["approved", "blocked", "failed"])),
                        name="daily_total_result_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RollUp",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("entries_until", models.DateTimeField()),
                ("failures_until", models.DateTimeField()),
                ("open_day", models.DateField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="roll_up_is_one")],
            },
        ),
    ]
