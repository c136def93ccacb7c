"""The Django app."""

from pathlib import Path
from secrets import token_bytes
from typing import Any

from django.apps import AppConfig, apps
from django.db import connections
from django.db.models.signals import post_migrate

from foundation.installed_sql import install_sql
from foundation.kernel.times import utc_now

_ROOM = Path(__file__).parent
_NAMES = (
    "deciding/sql/gas",
    "deciding/sql/relayers",
    "deciding/sql/facts",
    "deciding/sql/lock_and_read",
    "deciding/sql/record",
    "settling/sql/append_only",
    "settling/sql/legs",
    "sql/payment_states",
)
FILES = tuple(_ROOM / f"{name}.sql" for name in _NAMES)
TABLES = (
    "policy_agent",
    "policy_policyrevision",
    "ledger_hold",
    "payments_payment",
    "payments_settlement",
    "payments_relayer",
    "payments_chainstate",
    "payments_payeestate",
    "payments_transition",
    "payments_leg",
    "services_service",
    "payments_outflow",
    "payments_agentgas",
    "payments_installation",
)


class PaymentsConfig(AppConfig):
    name = "payments"
    verbose_name = "Payments"

    def ready(self) -> None:
        from payments.holding.proposals import KINDS as KINDS_OF_HOLDS
        from payments.proposals import KINDS
        from payments.settling.broadcast_notifier import tell_how_to_wake
        from staff.kinds import register

        register(*KINDS, *KINDS_OF_HOLDS)
        tell_how_to_wake(_wake_broadcaster)
        # After the last of the apps below: the triggers call a function of the ledger's.
        post_migrate.connect(self._install_sql, sender=apps.get_app_config("services"))

    def _install_sql(self, using: str, **_options: Any) -> None:
        install_sql(FILES, TABLES, using)
        self._make_installation(using)

    def _make_installation(self, using: str) -> None:
        installations: Any = self.get_model("Installation")._default_manager.using(using)  # noqa: SLF001 - Django's own
        if "payments_installation" in connections[using].introspection.table_names():
            installations.get_or_create(id=1, defaults={"salt": token_bytes(32), "created_at": utc_now()})


def _wake_broadcaster(chain: str, group: int | None) -> None:
    from payments.tasks import broadcast_payments  # loaded by those who approve payments, not by every command

    broadcast_payments.apply_async((chain,) if group is None else (chain, group), retry=False)
