"""Give the roles what came after them: the rows of registrations, decisions about payees, and alarms."""

from django.db import migrations

from staff.roles import make_groups


class Migration(migrations.Migration):
    dependencies = (
        ("staff", "0002_roles"),
        ("services", "0006_earlier_registrations"),
        ("policy", "0003_key_ranges_and_rotation"),
        ("backoffice", "0003_alarms_of_roles"),
    )
    operations = (migrations.RunPython(make_groups, migrations.RunPython.noop),)
