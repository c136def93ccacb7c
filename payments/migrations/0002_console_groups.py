"""Create the console's two groups: Finance looks at everything and decides, Auditor looks at everything."""

from typing import Any

from django.contrib.auth.management import create_permissions
from django.db import migrations

APPS = ("services", "policy", "ledger", "payments")
# What an action asks for; no page lets anyone change a row by hand.
DECISIONS = ("change_service", "change_agent")


def create_groups(apps: Any, schema_editor: Any) -> None:
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    for label in APPS:
        # Django creates permissions after all migrations, which is too late here; what exists is left as it is.
        app_config = apps.get_app_config(label)
        app_config.models_module = True
        create_permissions(app_config, verbosity=0, using=schema_editor.connection.alias, apps=apps)
        app_config.models_module = None
    ours = Permission.objects.filter(content_type__app_label__in=APPS)
    looks = ours.filter(codename__startswith="view_")
    Group.objects.get_or_create(name="Auditor")[0].permissions.add(*looks)
    Group.objects.get_or_create(name="Finance")[0].permissions.add(*looks, *ours.filter(codename__in=DECISIONS))


class Migration(migrations.Migration):
    dependencies = (
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("services", "0001_initial"),
        ("policy", "0002_signer_in_service"),
        ("ledger", "0001_initial"),
        ("payments", "0001_initial"),
    )
    operations = (migrations.RunPython(create_groups, migrations.RunPython.noop),)
