"""The four roles: what each may do, in words and in permissions.

The migrations make the groups from this table; what a role may do changes by a migration alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.management import create_permissions

# The apps whose rows every role sees.
_APPS = ("services", "policy", "ledger", "payments", "staff", "backoffice")


@dataclass(frozen=True, slots=True)
class Duty:
    """Something that a role may do: in words, and the permissions that the console asks for."""

    words: str
    permissions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Role:
    """A role, which is a group of Django's."""

    name: str
    purpose: str
    duties: tuple[Duty, ...]

    @property
    def permissions(self) -> frozenset[str]:
        return frozenset().union(*(duty.permissions for duty in self.duties))


def _duty(words: str, *permissions: str) -> Duty:
    return Duty(words, frozenset(permissions))


_CHAINS = _duty("stop and start a chain, and start it again after an alarm", "payments.change_chainstate")
_SIGNER = _duty("take the signer out of service and put it back", "policy.change_signerswitch")
_WEBHOOKS = _duty(
    "see and rotate webhook secrets, enable endpoints, send webhooks again",
    "services.change_webhookendpoint",
    "services.change_webhookdelivery",
)
_ALARMS = _duty("acknowledge alarms", "backoffice.change_alarm")
_NOTICES = _duty("test whether notices of alarms arrive", "backoffice.change_notice")
_SEE_PEOPLE = _duty("see who has an account, with which role", "auth.view_user", "auth.view_group")

ROLES = (
    Role(
        "Finance",
        "decides about money: who is paid, what agents may spend, what moves by hand.",
        (
            _duty("approve, reject, disable and enable payees", "services.change_service"),
            _duty("make agents", "policy.add_agent"),
            _duty("pause and resume agents and change their limits", "policy.change_agent"),
            _duty("approve and decline payments that wait for a person", "ledger.change_hold"),
            _duty("fund agents and move balances by hand", "ledger.add_balancemovement"),
            _duty("credit a deposit that names no agent", "payments.change_deposit"),
            _duty("take part in withdrawals and book what left an escrow",
                  "payments.change_withdrawal", "payments.change_outflow"),
            _CHAINS,
            _SIGNER,
            _WEBHOOKS,
            _ALARMS,
        ),
    ),
    Role(
        "Operations",
        "keeps the machinery going, and moves no money.",
        (
            _CHAINS,
            _SIGNER,
            _WEBHOOKS,
            _ALARMS,
            _NOTICES,
            _duty("issue, rotate and revoke API keys", "policy.add_apikey", "policy.change_apikey"),
        ),
    ),
    Role("Auditor", "sees everything and changes nothing.", (_SEE_PEOPLE,)),
    Role(
        "Administrator",
        "decides who works here and sees that they are told, and does no other work.",
        (
            _SEE_PEOPLE,
            _duty("make accounts, give roles, reset second factors, end sessions, deactivate accounts",
                  "auth.add_user", "auth.change_user"),
            _ALARMS,
            _NOTICES,
        ),
    ),
)  # fmt: skip
ADMINISTRATOR = "Administrator"


def make_groups(apps: Any, schema_editor: Any) -> None:
    """Give each role exactly what the table says, as far as the models exist by now. For migrations."""
    Group = apps.get_model("auth", "Group")
    Permission = apps.get_model("auth", "Permission")
    for label in (*_APPS, "auth"):
        _create_permissions(apps, label, schema_editor.connection.alias)
    for role in ROLES:
        group, _ = Group.objects.get_or_create(name=role.name)
        group.permissions.set(_chosen(Permission.objects.select_related("content_type"), role))


def _chosen(permissions: Iterable[Any], role: Role) -> list[Any]:
    return [
        permission
        for permission in permissions
        if is_given(role, permission.content_type.app_label, permission.codename)
    ]


def is_given(role: Role, app_label: str, codename: str) -> bool:
    """Tell whether a role has a permission: everybody sees the rows of our apps, and each has their own duties."""
    is_look = app_label in _APPS and codename.startswith("view_")
    return is_look or f"{app_label}.{codename}" in role.permissions


def _create_permissions(apps: Any, label: str, alias: str) -> None:
    try:
        app_config = apps.get_app_config(label)
    except LookupError:
        return
    # Django creates permissions after all migrations, which is too late here; what exists is left as it is.
    app_config.models_module = True
    create_permissions(app_config, verbosity=0, using=alias, apps=apps)
    app_config.models_module = None
