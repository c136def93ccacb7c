"""What a transaction pays, in a table of its own: one transaction carries several payments, each of which is a leg of it.

The release before knows of one payment for each transaction, in the column `payment_id`. It stays, as the first of several.
What that release writes and tells of costs while both run, a trigger writes down for the legs. The column `agent_id`, the
index `settlement_gas_at_most`, and this trigger are for that release alone: the release after this one is to drop them.

Each step is taken by itself, and once: payments go on, and none waits for one table while another one is held.
"""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import policy.fields

# From the first leg on: what the release before ends meanwhile is live no more. Installed again after each `migrate`.
_LEGS_FOLLOW = (Path(__file__).parents[1] / "settling/sql/legs.sql").read_text()
_WHAT_THE_RELEASE_BEFORE_WRITES = """
    CREATE OR REPLACE FUNCTION payments_make_leg() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO payments_leg (payment_id, tx, agent_id, chain, is_void, is_live, most_cost, cost)
        SELECT NEW.payment_id, split_part(NEW.tx, '#', 1), payment.agent_id, NEW.chain, NEW.is_void,
               NEW.state IN ('signed', 'broadcast', 'included', 'final'), NEW.most_cost, NEW.cost
          FROM payments_payment AS payment WHERE payment.id = NEW.payment_id
            ON CONFLICT (payment_id, tx) DO NOTHING;
        RETURN NULL;
    END $$;
    -- It names an agent, or has found the transaction on the chain; this release names none, and makes legs itself.
    CREATE OR REPLACE TRIGGER make_leg AFTER INSERT ON payments_settlement
        FOR EACH ROW WHEN (NEW.payment_id IS NOT NULL AND (NEW.agent_id IS NOT NULL OR NEW.raw = ''))
        EXECUTE FUNCTION payments_make_leg();

    CREATE OR REPLACE FUNCTION payments_tell_leg() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE payments_leg SET cost = NEW.cost WHERE tx = NEW.tx AND payment_id = NEW.payment_id AND cost IS NULL;
        RETURN NULL;
    END $$;
    CREATE OR REPLACE TRIGGER tell_leg AFTER UPDATE OF cost ON payments_settlement
        FOR EACH ROW WHEN (NEW.payment_id IS NOT NULL AND NEW.agent_id IS NOT NULL) EXECUTE FUNCTION payments_tell_leg();
"""
_FORGET = """
    DROP TRIGGER IF EXISTS make_leg ON payments_settlement;
    DROP TRIGGER IF EXISTS tell_leg ON payments_settlement;
    DROP TRIGGER IF EXISTS legs_follow ON payments_settlement;
    DROP FUNCTION IF EXISTS payments_make_leg(), payments_tell_leg(), payments_follow_transaction();
"""


_TABLE = """
    CREATE TABLE IF NOT EXISTS payments_leg (
        chain varchar(64) NOT NULL,
        is_void boolean NOT NULL,
        is_live boolean NOT NULL,
        skipped varchar(500),
        most_cost numeric,
        cost numeric,
        agent_id varchar(255) COLLATE "C" NOT NULL,
        payment_id varchar(30) COLLATE "C" NOT NULL,
        tx varchar(100) COLLATE "C" NOT NULL,
        PRIMARY KEY (payment_id, tx)
    )
"""
_INDEXES = (
    "CREATE UNIQUE INDEX IF NOT EXISTS leg_one_live_per_payment ON payments_leg (payment_id, is_void) WHERE is_live",
    "CREATE INDEX IF NOT EXISTS leg_by_transaction ON payments_leg (tx)",
    """CREATE INDEX IF NOT EXISTS leg_gas_at_most ON payments_leg (agent_id, chain)
        WHERE cost IS NULL AND most_cost IS NOT NULL""",
)
_REFERENCES = {
    "payments_leg_agent_id_ed4c8d51_fk_policy_agent_id": "(agent_id) REFERENCES policy_agent (id)",
    "payments_leg_payment_id_bbb1e3c2_fk_payments_payment_id": "(payment_id) REFERENCES payments_payment (id)",
    "payments_leg_tx_afa618ff_fk_payments_settlement_tx": "(tx) REFERENCES payments_settlement (tx)",
}
_ADD_REFERENCE = """
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'payments_leg'::regclass AND conname = '{name}') THEN
            ALTER TABLE payments_leg ADD CONSTRAINT {name} FOREIGN KEY {reference} DEFERRABLE INITIALLY DEFERRED;
        END IF;
    END $$
"""


class Migration(migrations.Migration):
    atomic = False  # payments go on: whoever waits for one table must not hold another one

    dependencies = (("payments", "0017_lease"),)
    operations = (
        migrations.RunSQL(
            "DROP TRIGGER IF EXISTS name_shared_tx ON payments_settlement; DROP FUNCTION IF EXISTS payments_name_shared_tx()",
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL("ALTER TABLE payments_settlement DROP COLUMN IF EXISTS shared_tx", migrations.RunSQL.noop),
        migrations.RunSQL(_TABLE, "DROP TABLE IF EXISTS payments_leg"),
        *(migrations.RunSQL(statement, migrations.RunSQL.noop) for statement in _INDEXES),
        *(
            migrations.RunSQL(_ADD_REFERENCE.format(name=name, reference=reference), migrations.RunSQL.noop)
            for name, reference in _REFERENCES.items()
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField("settlement", "shared_tx"),
                migrations.RemoveConstraint("settlement", "settlement_one_live_per_payment"),
                migrations.AlterField(
                    "settlement",
                    "tx",
                    models.CharField(
                        db_collation="C",
                        help_text="The chain's own id.",
                        max_length=100,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                migrations.RemoveIndex("settlement", "settlement_gas_at_most"),
                migrations.RemoveField("settlement", "agent"),
                migrations.RenameField("settlement", "payment", "first_payment"),
                migrations.AlterField(
                    "settlement",
                    "first_payment",
                    models.ForeignKey(
                        db_column="payment_id",
                        help_text="The first of its payments; null: it fills a nonce.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="payments.payment",
                    ),
                ),
                migrations.AlterField(
                    "settlement",
                    "is_void",
                    models.BooleanField(
                        default=False, help_text="It makes its payment impossible, instead of making it."
                    ),
                ),
                migrations.CreateModel(
                    name="Leg",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "payment_id",
                                "settlement_id",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("chain", models.CharField(help_text="CAIP-2.", max_length=64)),
                        ("is_void", models.BooleanField(default=False, help_text="As of its transaction.")),
                        ("is_live", models.BooleanField(default=True)),
                        ("skipped", models.CharField(max_length=500, null=True)),
                        ("most_cost", policy.fields.AmountField(null=True)),
                        ("cost", policy.fields.AmountField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="+",
                                to="policy.agent",
                            ),
                        ),
                        (
                            "payment",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="legs",
                                to="payments.payment",
                            ),
                        ),
                        (
                            "settlement",
                            models.ForeignKey(
                                db_column="tx",
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="legs",
                                to="payments.settlement",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["settlement"], name="leg_by_transaction"),
                            models.Index(
                                condition=Q(cost=None, most_cost__isnull=False),
                                fields=["agent", "chain"],
                                name="leg_gas_at_most",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=Q(is_live=True),
                                fields=("payment", "is_void"),
                                name="leg_one_live_per_payment",
                            )
                        ],
                    },
                ),
                migrations.AddField(
                    "settlement",
                    "payments",
                    models.ManyToManyField(related_name="settlements", through="payments.Leg", to="payments.payment"),
                ),
            ]
        ),
        migrations.RunSQL(_LEGS_FOLLOW, migrations.RunSQL.noop),
        migrations.RunSQL(_WHAT_THE_RELEASE_BEFORE_WRITES, _FORGET),
    )
