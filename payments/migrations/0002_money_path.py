"""Install the two functions of the money path."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = (
        ("payments", "0001_initial"),
        ("ledger", "0002_append_only_and_windows"),
        ("policy", "0002_signer_in_service"),
        ("services", "0001_initial"),
    )
    operations = tuple(
        migrations.RunSQL((SQL / name).read_text(), migrations.RunSQL.noop)
        for name in ("lock_and_read.sql", "record.sql")
    )
