"""Payments that wait for a person's approval."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from policy.fields import AmountField

_OPTIONS = {"on_delete": django.db.models.deletion.PROTECT, "db_constraint": False}


class Migration(migrations.Migration):
    dependencies = (("ledger", "0007_tallies"),)
    operations = (
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.CharField(db_collation="C", max_length=30, primary_key=True, serialize=False)),
                ("agent", models.ForeignKey("policy.agent", db_index=False, **_OPTIONS)),
                ("entry", models.OneToOneField("ledger.logentry", related_name="hold", **_OPTIONS)),
                ("service", models.CharField(max_length=255)),
                ("amount", AmountField()),
                ("api_key", models.CharField(blank=True, max_length=30)),
                ("demand_json", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "answer",
                    models.CharField(
                        blank=True, choices=[("approve", "approved"), ("decline", "declined")], max_length=8
                    ),
                ),
                ("answered_by", models.CharField(blank=True, max_length=150)),
                ("answered_at", models.DateTimeField(null=True)),
                ("answer_reason", models.CharField(blank=True, max_length=500)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "final_entry",
                    models.OneToOneField("ledger.logentry", null=True, related_name="hold_ended", **_OPTIONS),
                ),
            ],
            options={
                "verbose_name": "payment that waits for approval",
                "verbose_name_plural": "payments that wait for approval",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(name="hold_open", fields=["agent", "id"], condition=Q(ended_at=None)),
                    models.Index(name="hold_by_agent", fields=["agent", "id"]),
                ],
                "constraints": [
                    models.CheckConstraint(name="hold_amount_positive", condition=Q(amount__gt=0)),
                    models.CheckConstraint(
                        name="hold_answer_says_who_and_why",
                        condition=Q(answer="", answered_by="", answered_at=None, answer_reason="")
                        | Q(
                            ~Q(answered_by=""),
                            ~Q(answer_reason=""),
                            answer__in=["approve", "decline"],
                            answered_at__isnull=False,
                        ),
                    ),
                    models.CheckConstraint(
                        name="hold_ends_with_a_decision",
                        condition=Q(ended_at=None, final_entry=None)
                        | Q(ended_at__isnull=False, final_entry__isnull=False),
                    ),
                ],
            },
        ),
    )
