"""What a role may not do is refused to a request made by hand: every action and every form of the console, by its
registry, so that none is forgotten.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db.models import Model
from django.urls import reverse

from backoffice.models import Alarm
from foundation.kernel.times import utc_now
from policy.models import ShadowRevision, SignerSwitch
from staff.models import ChangeRequest
from staff.roles import ROLES
from tests.support.factories import new_name
from tests.support.one_of_everything import make_one_of_everything

FINANCE, OPERATIONS, ADMINISTRATOR = {"Finance"}, {"Operations"}, {"Administrator"}
CHAINS = FINANCE | OPERATIONS
# Written out once more: whoever adds an action says here who may do it.
WHO = {
    "backoffice.alarm": {"acknowledge": CHAINS | ADMINISTRATOR},
    "auth.user": dict.fromkeys(
        (
            "change_roles",
            "send_link",
            "make_link",
            "reset_second_factor",
            "let_in",
            "end_sessions",
            "deactivate",
            "activate",
        ),
        ADMINISTRATOR,
    ),
    "ledger.hold": dict.fromkeys(("approve", "decline"), FINANCE),
    "payments.chainstate": dict.fromkeys(("stop_signing", "start_signing"), CHAINS),
    "payments.deposit": {"credit": FINANCE},
    "payments.outflow": {"book": FINANCE},
    "payments.withdrawal": {"cancel": FINANCE},
    "policy.agent": dict.fromkeys(
        ("pause", "resume", "adjust", "withdraw", "set_webhook", "archive", "restore"), FINANCE
    ),
    "policy.apikey": dict.fromkeys(("rotate", "revoke"), OPERATIONS),
    "policy.signerswitch": dict.fromkeys(("stop", "start"), CHAINS),
    "services.service": dict.fromkeys(("approve", "reject", "disable", "enable", "reopen", "tag"), FINANCE),
    "services.webhookdelivery": {"send_again": CHAINS},
    "services.webhookendpoint": dict.fromkeys(("send_test", "replay", "enable", "show_secret", "rotate"), CHAINS),
}
WHO_ADDS = {"policy.agent": FINANCE, "policy.apikey": OPERATIONS, "auth.user": ADMINISTRATOR}
PAGES = {model._meta.label_lower: page for model, page in admin.site._registry.items()}
# What the forms of the console send, all at once.
SENT = {
    "reason": "By hand", "is_meant": "True", "amount": "1", "roles": "Administrator", "username": "eve", "name": "Eve",
    "email": "eve@example.com", "id": "agent-of-eve", "asset": "USDC", "max_per_payment": "9", "daily_limit": "9",
    "weekly_limit": "9", "allows": "all", "scopes": "payments", "confirm": "yes", "post": "yes", "role": "finance",
    "make": "1", "url": "https://eve.example.com/told",
}  # fmt: skip


@pytest.fixture
def rows(db: None) -> dict[str, Model]:
    """A row for each page that has actions."""
    make_one_of_everything()
    User.objects.create(username=new_name("user"), is_staff=True)
    SignerSwitch.objects.get_or_create(pk=1)
    Alarm.objects.create(
        kind="pools", subject=new_name("pool"), sentence="S", severity="error", permission="payments.view_payment",
        count=1, url="/console/", found_by="f", raised_at=utc_now(),
    )  # fmt: skip
    found = {label: apps.get_model(label)._default_manager.first() for label in WHO}
    return {label: row for label, row in found.items() if row is not None}


def everything() -> list[Any]:
    """Read all rows that the console has pages of: of the audit and the requests, too."""
    return [list(model._default_manager.order_by("pk").values()) for model in admin.site._registry]


def test_the_table_has_every_action_of_the_console(rows: dict[str, Model]) -> None:
    named = {label: list(page.actions) for label, page in PAGES.items() if page.actions}

    assert {label: list(actions) for label, actions in WHO.items()} == named
    assert rows.keys() == WHO.keys()
    assert admin.site._actions.keys() <= {"delete_selected"}


@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_who_may_not_do_an_action_is_refused_and_nothing_changes(
    rows: dict[str, Model], make_person, role: str
) -> None:
    person = make_person(group=role)
    before = everything()

    for label, actions in WHO.items():
        page, key = label.replace(".", "_"), str(rows[label].pk)
        for action, who in [*actions.items(), ("delete_selected", set())]:
            if role not in who:
                more = {"shown": f"1 {key}", "from_page": key, **SENT}
                assert person.try_to_act(page, action, key, **more).status_code == 403, f"{label}: {action}"
    assert everything() == before


@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_who_may_do_an_action_is_asked_first(rows: dict[str, Model], make_person, role: str) -> None:
    person = make_person(group=role)

    for label, actions in WHO.items():
        for action, who in actions.items():
            if role in who:
                answer = person.try_to_act(label.replace(".", "_"), action, str(rows[label].pk))
                assert answer.status_code in (200, 302), f"{label}: {action}"


@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_no_page_does_what_a_role_may_not_do(rows: dict[str, Model], make_person, role: str) -> None:
    person = make_person(group=role)
    asked = ChangeRequest.objects.create(
        kind="policy.raise", subject_type="policy", subject=str(rows["policy.agent"].pk), arguments={}, shown=[],
        reason="R", asked_by="fiona", asked_at=utc_now(), expires_at=utc_now() + timedelta(days=1),
    )  # fmt: skip
    before, tried = everything(), ShadowRevision.objects.latest("created_at").pk
    pages = {
        reverse("admin:policy_agent_policy", args=[quote(rows["policy.agent"].pk)]): FINANCE,
        reverse("admin:policy_agent_shadow", args=[quote(tried)]): FINANCE,
        reverse("admin:staff_changerequest_decide", args=[asked.pk]): FINANCE,
        reverse("backoffice:notices"): OPERATIONS | ADMINISTRATOR,
    }

    for page, who in pages.items():
        if role not in who:
            person.client.post(page, {**SENT, "seen": "1"})
    assert everything() == before


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("role", [role.name for role in ROLES])
def test_no_form_of_djangos_admin_adds_changes_or_deletes_a_row(make_person, role: str) -> None:
    person = make_person(group=role)
    before = everything()

    for label, page in PAGES.items():
        name, row = label.replace(".", "_"), page.model._default_manager.first()
        statuses = {"change": 0, "delete": 0} if row else {}
        for view in statuses:
            statuses[view] = person.post(f"{name}_{view}", str(row.pk), **SENT).status_code
        if role not in WHO_ADDS.get(label, set()):
            statuses["add"] = person.post(f"{name}_add", **SENT).status_code
        assert set(statuses.values()) <= {403, 404, 405}, f"{label}: {statuses}"
    assert everything() == before
