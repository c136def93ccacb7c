"""A lease is called so here, too. Its table keeps the name that the release before writes to."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("payments", "0016_shared_transactions"),)
    operations = (
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("Duty", "Lease"),
                migrations.AlterModelTable("Lease", "payments_duty"),
            ]
        ),
    )
