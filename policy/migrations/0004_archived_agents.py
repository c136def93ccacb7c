"""Agents that are not used any more can be archived."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("policy", "0003_key_ranges_and_rotation"),)
    operations = (
        migrations.AddField(
            model_name="agent",
            name="archived_at",
            field=models.DateTimeField(help_text="Null: it is not archived.", null=True),
        ),
    )
