"""Policies remember whether one person alone let them pass: together they stay under a threshold."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("policy", "0004_archived_agents"),)
    operations = (
        migrations.AddField(
            model_name="policyrevision",
            name="is_by_one",
            field=models.BooleanField(
                db_default=False, default=False, help_text="One person alone let this pass, under FOUR_EYES_ABOVE."
            ),
        ),
    )
