"""Give the roles what came with payments that wait for a person's approval: all see them, and Finance answers them."""

from django.db import migrations

from staff.roles import make_groups


class Migration(migrations.Migration):
    dependencies = (("staff", "0003_roles_of_new_rows"), ("ledger", "0008_holds"))
    operations = (migrations.RunPython(make_groups, migrations.RunPython.noop),)
