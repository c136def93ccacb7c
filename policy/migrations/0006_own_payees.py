"""A key may be limited to the payees that it registered itself."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("policy", "0005_let_in_by_one"),)
    operations = (
        migrations.AddField(
            model_name="apikey",
            name="registers_as",
            field=models.CharField(max_length=30, null=True),
        ),
    )
