"""Install the append-only triggers and the functions of the rolling windows."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = (("ledger", "0001_initial"), ("policy", "0002_signer_in_service"))
    operations = tuple(
        migrations.RunSQL((SQL / name).read_text(), migrations.RunSQL.noop)
        for name in ("append_only.sql", "windows.sql")
    )
