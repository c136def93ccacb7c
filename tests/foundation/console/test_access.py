"""Who gets in, and what the two groups may do. Source: "the console lets no one in who does not belong"."""

import pytest
from django.contrib.auth.models import Group

from tests.foundation.console.conftest import Person
from tests.support.factories import make_agent, make_service
from tests.support.webhook_rows import make_delivery, make_endpoint

PASSWORD = "correct horse battery staple"
OURS = ("services", "policy", "ledger", "payments", "staff", "backoffice")


def test_who_is_not_logged_in_is_sent_to_the_login_page(db):
    response = Person(None).get("services_service_changelist")

    assert response.status_code == 302
    assert response["Location"] == "/console/login/?next=/console/services/service/"


def test_who_is_not_logged_in_cannot_act(db):
    service = make_service(approved=False)

    response = Person(None).try_to_act("services_service", "reject", service.id)

    service.refresh_from_db()
    assert response["Location"].startswith("/console/login/")
    assert service.status == "pending_approval"


@pytest.mark.parametrize("page", ["endpoint", "delivery", "attempt"])
def test_who_is_not_logged_in_sees_no_webhook(db, page):
    response = Person(None).get(f"services_webhook{page}_changelist")

    assert response.status_code == 302
    assert response["Location"].startswith("/console/login/")


def test_who_is_not_logged_in_is_shown_no_secret(db):
    endpoint = make_endpoint()

    response = Person(None).try_to_act("services_webhookendpoint", "show_secret", endpoint.pk, is_meant="True")

    assert response["Location"].startswith("/console/login/")
    assert not endpoint.secrets.exists()


def test_staff_can_log_in(make_person):
    person = make_person(password=PASSWORD)
    person.client.logout()

    response = person.post("login", username=person.name, password=PASSWORD, next="/console/")

    assert (response.status_code, response["Location"]) == (302, "/console/")


@pytest.mark.parametrize(
    "flags", [{"is_staff": False}, {"is_staff": False, "is_superuser": True}, {"is_active": False}]
)
def test_who_is_not_active_staff_cannot_log_in(make_person, flags):
    person = make_person(password=PASSWORD, **flags)
    person.client.logout()

    response = person.post("login", username=person.name, password=PASSWORD, next="/console/")

    assert response.status_code == 200
    assert "errornote" in response.content.decode()
    assert person.get("index").status_code == 302


def test_who_is_logged_in_but_not_staff_sees_nothing(make_person):
    response = make_person(is_staff=False, group="Finance").get("services_service_changelist")

    assert response.status_code == 302
    assert response["Location"].startswith("/console/login/")


@pytest.mark.parametrize(
    "page",
    [
        "services_service", "policy_agent", "policy_apikey", "ledger_logentry", "payments_payment",
        "services_webhookendpoint", "services_webhookdelivery", "services_webhookattempt",
    ],
)  # fmt: skip
def test_staff_without_permissions_see_no_page(make_person, page):
    assert make_person().get(f"{page}_changelist").status_code == 403


def test_a_post_without_the_csrf_token_is_refused(finance):
    service = make_service()
    finance.client.handler.enforce_csrf_checks = True

    response = finance.try_to_act("services_service", "disable", service.id)

    service.refresh_from_db()
    assert (response.status_code, service.status) == (403, "approved")


@pytest.mark.parametrize(
    ("group", "more"),
    [
        ("Auditor", set()),
        (
            "Finance",
            {"change_service", "add_agent", "change_agent", "add_balancemovement", "change_hold", "change_deposit",
             "change_withdrawal", "change_outflow", "change_chainstate", "change_signerswitch",
             "change_webhookendpoint", "change_webhookdelivery", "change_alarm"},
        ),
    ],
)  # fmt: skip
def test_a_group_may_look_at_everything_and_finance_may_decide(db, group, more):
    permissions = Group.objects.get(name=group).permissions.filter(content_type__app_label__in=OURS)
    names = {permission.codename for permission in permissions}

    assert {name for name in names if not name.startswith("view_")} == more
    assert names >= {
        "view_service",
        "view_agent",
        "view_policyrevision",
        "view_logentry",
        "view_payment",
        "view_apikey",
        "view_webhookendpoint",
        "view_webhookdelivery",
        "view_webhookattempt",
    }
    # Beside these, an auditor sees who works here: tests/staff/test_roles.py has all roles in full.
    others = Group.objects.get(name=group).permissions.exclude(content_type__app_label__in=OURS)
    assert {permission.codename for permission in others} <= {"view_user", "view_group"}


@pytest.mark.parametrize(
    "model", ["services_service", "policy_agent", "services_webhookendpoint", "services_webhookdelivery"]
)
def test_an_auditor_sees_a_list_without_actions(auditor, model):
    make_service(), make_agent(), make_delivery(make_endpoint())

    response = auditor.get(f"{model}_changelist")

    assert response.status_code == 200
    assert 'name="action"' not in response.content.decode()


@pytest.mark.parametrize("action", ["approve", "reject", "disable"])
@pytest.mark.parametrize("extra", [{}, {"select_across": "1"}])
def test_an_auditors_forged_decision_is_refused(auditor, action, extra):
    service = make_service(approved=action == "disable")
    before = service.status

    response = auditor.try_to_act("services_service", action, service.id, shown=f"1 {service.id}", **extra)

    service.refresh_from_db()
    assert (response.status_code, service.status) == (403, before)


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_an_auditors_forged_pause_is_refused(auditor, action):
    agent = make_agent()

    response = auditor.try_to_act("policy_agent", action, agent.id)

    agent.refresh_from_db()
    assert (response.status_code, agent.status) == (403, "active")
