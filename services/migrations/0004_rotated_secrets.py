from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("services", "0003_earlier_events")]

    operations = [
        migrations.AddField(
            model_name="webhookendpoint", name="secret_rotated_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="secret_rotated_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=600),
        ),
    ]
