"""An agent may have a shadow: limits that are tried on it, and decide nothing."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import policy.fields

_NOT_NEGATIVE = models.Q(daily_limit__gte=0, max_per_payment__gte=0, weekly_limit__gte=0)


class Migration(migrations.Migration):
    dependencies = (("policy", "0007_optional_limits"),)
    operations = (
        migrations.CreateModel(
            name="ShadowRevision",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="shadow",
                        serialize=False,
                        to="policy.agent",
                    ),
                ),
                ("max_per_payment", policy.fields.AmountField()),
                ("daily_limit", policy.fields.AmountField()),
                ("weekly_limit", policy.fields.AmountField()),
                (
                    "allowed_services",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=128), null=True, size=None
                    ),
                ),
                ("more_json", models.TextField(help_text="The optional limits.")),
                ("created_by", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("agent",),
                "constraints": [
                    models.CheckConstraint(condition=_NOT_NEGATIVE, name="shadow_limits_not_negative"),
                ],
            },
        ),
    )
