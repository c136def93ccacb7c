"""Let the console's groups see webhook deliveries, and Finance send again, enable, and handle secrets."""

from typing import Any

from django.contrib.auth.management import create_permissions
from django.db import migrations

DECISIONS = ("change_webhookendpoint", "change_webhookdelivery")


def extend_groups(apps: Any, schema_editor: Any) -> None:
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    app_config = apps.get_app_config("services")
    # Django creates permissions after all migrations, which is too late here.
    app_config.models_module = True
    create_permissions(app_config, verbosity=0, using=schema_editor.connection.alias, apps=apps)
    app_config.models_module = None
    ours = Permission.objects.filter(content_type__app_label="services")
    looks = ours.filter(codename__startswith="view_")
    Group.objects.get_or_create(name="Auditor")[0].permissions.add(*looks)
    Group.objects.get_or_create(name="Finance")[0].permissions.add(*looks, *ours.filter(codename__in=DECISIONS))


class Migration(migrations.Migration):
    dependencies = (("payments", "0007_strays"), ("services", "0002_webhook_deliveries"))
    operations = (migrations.RunPython(extend_groups, migrations.RunPython.noop),)
