"""Let the roles see alarms and notices, acknowledge alarms and test notices, as staff/roles.py says."""

from django.db import migrations

from staff.roles import make_groups


class Migration(migrations.Migration):
    dependencies = (("backoffice", "0002_alarms"), ("staff", "0002_roles"))
    operations = (migrations.RunPython(make_groups, migrations.RunPython.noop),)
