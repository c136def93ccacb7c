"""Make the groups of the four roles hold exactly what staff/roles.py says."""

from django.db import migrations

from staff.roles import make_groups


class Migration(migrations.Migration):
    dependencies = (
        ("staff", "0001_initial"),
        ("payments", "0012_fewer_index_writes"),
        ("auth", "0012_alter_user_first_name_max_length"),
    )
    operations = (migrations.RunPython(make_groups, migrations.RunPython.noop),)
