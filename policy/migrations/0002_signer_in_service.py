"""A new installation's policy signer is in service."""

from typing import Any

from django.db import migrations


def put_in_service(apps: Any, _schema_editor: Any) -> None:
    apps.get_model("policy", "SignerSwitch").objects.get_or_create(id=1, defaults={"is_signing": True})


class Migration(migrations.Migration):
    dependencies = (("policy", "0001_initial"),)
    operations = (migrations.RunPython(put_in_service, migrations.RunPython.noop),)
