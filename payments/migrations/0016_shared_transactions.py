"""The chain's own id of a transaction that makes several payments, in a column of its own.

The release before writes it into the key alone, as `id#payment`, also while both run: a trigger then fills the column in. It
is to be dropped by the release after this one, whose keys need no form any more.
"""

from django.db import migrations, models

from foundation.repeatable_migrations import AddMissingField

_FILL_IN_LATER = """
    CREATE OR REPLACE FUNCTION payments_name_shared_tx() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.shared_tx := split_part(NEW.tx, '#', 1);
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER name_shared_tx BEFORE INSERT ON payments_settlement
        FOR EACH ROW WHEN (NEW.shared_tx IS NULL AND NEW.tx LIKE '%#%') EXECUTE FUNCTION payments_name_shared_tx();
"""
FILL_IN = """
    UPDATE payments_settlement SET shared_tx = split_part(tx, '#', 1) WHERE shared_tx IS NULL AND tx LIKE '%#%'
"""
_FORGET = """
    DROP TRIGGER IF EXISTS name_shared_tx ON payments_settlement;
    DROP FUNCTION IF EXISTS payments_name_shared_tx();
"""


class Migration(migrations.Migration):
    atomic = False  # payments go on while a long table is read

    dependencies = (("payments", "0015_contradicting_nodes"),)
    operations = (
        AddMissingField(
            "settlement",
            "shared_tx",
            models.CharField(
                db_collation="C",
                help_text="The chain's own id, which is the key of another row.",
                max_length=100,
                null=True,
            ),
        ),
        migrations.AlterField(
            "settlement",
            "tx",
            models.CharField(
                db_collation="C",
                help_text="The chain's own id, unless `shared_tx` is.",
                max_length=100,
                primary_key=True,
                serialize=False,
            ),
        ),
        # First for what comes, then for what is there: nothing is written between the two without it.
        migrations.RunSQL(_FILL_IN_LATER, _FORGET),
        migrations.RunSQL(FILL_IN, migrations.RunSQL.noop),
    )
