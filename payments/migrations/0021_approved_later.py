"""A payment may be approved later than it was asked for: by a person."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("payments", "0020_limits_of_later"),)
    operations = (
        migrations.AddField(
            "payment",
            "approved_at",
            models.DateTimeField(help_text="Null: when it was created. Else a person did so.", null=True),
        ),
    )
