"""Payees may have tags, which policies may allow."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("services", "0009_agents_are_told"),)
    operations = (
        migrations.AddField(
            "service",
            "tags",
            ArrayField(
                models.CharField(max_length=32),
                db_default=[],
                default=list,
                help_text="The groups that policies may allow, in their order.",
                size=None,
            ),
        ),
        migrations.AddConstraint(
            "service", models.CheckConstraint(name="service_tags_few", condition=models.Q(tags__len__lte=10))
        ),
    )
