"""Let an installation that funded its agents by hand begin to watch deposits where it is now.

Before, nobody watched the escrows: what was deposited was credited by hand, and is not to be credited again.
"""

from typing import Any

from django.conf import settings
from django.db import migrations
from django.utils.timezone import now


def begin_at_the_next_final_block(apps: Any, _schema_editor: Any) -> None:
    Movement = apps.get_model("ledger", "BalanceMovement")
    Cursor = apps.get_model("payments", "DepositCursor")
    if Movement.objects.filter(kind="funding").exists():
        for chain in settings.CHAINS:
            Cursor.objects.get_or_create(chain=chain, defaults={"block_number": None, "moved_at": now()})


class Migration(migrations.Migration):
    dependencies = (("payments", "0004_console_groups"),)
    operations = (migrations.RunPython(begin_at_the_next_final_block, migrations.RunPython.noop),)
