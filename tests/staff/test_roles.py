"""The four roles hold exactly what the table in staff/roles.py says, and the page says it in words."""

import pytest
from django.contrib.auth.models import Group, Permission

from staff.roles import ROLES, is_given
from tests.support.sign_in import Browser, make_user, text_of

# Written out once more: whoever changes the table has to mean it.
DUTIES = {
    "Finance": {
        "services.change_service", "policy.add_agent", "policy.change_agent", "ledger.add_balancemovement",
        "ledger.change_hold",
        "payments.change_deposit", "payments.change_withdrawal", "payments.change_outflow",
        "payments.change_chainstate", "policy.change_signerswitch",
        "services.change_webhookendpoint", "services.change_webhookdelivery",
        "backoffice.change_alarm",
    },
    "Operations": {
        "payments.change_chainstate", "policy.change_signerswitch", "policy.add_apikey", "policy.change_apikey",
        "services.change_webhookendpoint", "services.change_webhookdelivery",
        "backoffice.change_alarm", "backoffice.change_notice",
    },
    "Auditor": {"auth.view_user", "auth.view_group"},
    "Administrator": {
        "auth.view_user", "auth.view_group", "auth.add_user", "auth.change_user",
        "backoffice.change_alarm", "backoffice.change_notice",
    },
}  # fmt: skip
APPS = ("services", "policy", "ledger", "payments", "staff", "backoffice")


def held(role):
    permissions = Group.objects.get(name=role).permissions.select_related("content_type")
    return {f"{one.content_type.app_label}.{one.codename}" for one in permissions}


@pytest.mark.parametrize("role", DUTIES)
def test_a_role_holds_its_duties_and_sees_everything(db, role):
    seen = Permission.objects.filter(content_type__app_label__in=APPS, codename__startswith="view_")
    looks = {f"{one.content_type.app_label}.{one.codename}" for one in seen.select_related("content_type")}

    assert held(role) == looks | DUTIES[role]


def test_the_groups_are_what_the_table_says(db):
    assert {role.name for role in ROLES} == DUTIES.keys() == set(Group.objects.values_list("name", flat=True))
    for role in ROLES:
        assert role.permissions == DUTIES[role.name]
        for permission in Permission.objects.select_related("content_type"):
            name = f"{permission.content_type.app_label}.{permission.codename}"
            assert (name in held(role.name)) == is_given(role, permission.content_type.app_label, permission.codename)


def test_every_permission_of_the_table_exists(db):
    there = {
        f"{one.content_type.app_label}.{one.codename}" for one in Permission.objects.select_related("content_type")
    }

    assert set().union(*(role.permissions for role in ROLES)) <= there


@pytest.mark.parametrize("role", DUTIES)
def test_the_page_says_what_each_role_may_do(db, role):
    page = text_of(Browser().sign_in(make_user(role)).get("/console/roles/")).lower()

    for one in ROLES:
        assert one.purpose in page
        assert all(duty.words.lower() in page for duty in one.duties)


def test_a_stranger_does_not_see_the_page(db):
    assert Browser().get("/console/roles/")["Location"] == "/console/login/?next=/console/roles/"
