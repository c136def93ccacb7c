"""`manage.py webhooks`."""

import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from foundation.commands import AUTHOR
from foundation.kernel.times import format_instant, utc_now
from services.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from services.webhooks.operations import reveal_secrets, send_test_event
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.factories import make_service, new_name


def make_told_service():
    return make_service(webhook_url=f"https://{new_name('payee')}.example.com/told")


def status_of(service):
    """Run the command; return what people read, and what programs read of one service and of all."""
    lines, failure = run("webhooks")
    assert failure is None
    told = json.loads(lines[-1])
    (endpoint,) = [one for one in told["endpoints"] if one["service"] == service.id]
    return "\n".join(lines[:-1]), endpoint, told["totals"]


def test_an_endpoint_is_shown_with_what_waits_for_it(db):
    service = make_told_service()
    event = send_test_event(service.id, by="ann")

    table, endpoint, totals = status_of(service)

    assert endpoint == {
        "service": service.id, "agent": None, "url": service.webhook_url, "state": "new", "reason": "",
        "waiting": 1, "failed": 0, "oldestWaitingAt": format_instant(event.created_at),
    }  # fmt: skip
    assert totals["waiting"] >= 1
    (row,) = [line for line in table.splitlines() if service.id in line]
    assert service.webhook_url in row
    assert row.split()[:3] == ["new", "1", "0"]


def test_an_endpoint_that_is_disabled_says_why(db):
    service = make_told_service()
    WebhookEndpoint.objects.filter(pk=service.id).update(disabled_at=utc_now(), disabled_reason="It is gone.")

    table, endpoint, totals = status_of(service)

    assert (endpoint["state"], endpoint["reason"]) == ("disabled", "It is gone.")
    assert totals["disabled"] >= 1
    assert "It is gone." in table


def test_failed_deliveries_are_counted(db):
    service = make_told_service()
    event = send_test_event(service.id, by="ann")
    WebhookDelivery.objects.filter(pk=event.id).update(state=DeliveryState.FAILED, next_attempt_at=None)

    _, endpoint, totals = status_of(service)

    assert (endpoint["waiting"], endpoint["failed"], endpoint["oldestWaitingAt"]) == (0, 1, None)
    assert totals["failed"] >= 1


def test_what_nobody_takes_up_raises_the_question_whether_somebody_is_there(db):
    # Other tests leave things that are due.
    WebhookDelivery.objects.filter(state=DeliveryState.WAITING).update(next_attempt_at=utc_now())
    event = send_test_event(make_told_service().id, by="ann")
    assert "is the `webhooks` process running?" not in "\n".join(run("webhooks")[0])

    long_ago = utc_now() - timedelta(minutes=3)
    WebhookDelivery.objects.filter(pk=event.id).update(next_attempt_at=long_ago)

    lines, _ = run("webhooks")
    assert json.loads(lines[-1])["totals"]["overdue"] == 1
    assert "is the `webhooks` process running?" in "\n".join(lines)


def test_secrets_are_resealed_and_the_audit_says_so(db, settings):
    reveal_secrets(make_told_service().id, by="ann")
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = (settings.WEBHOOK_SECRETS_KEY,)
    settings.WEBHOOK_SECRETS_KEY = bytes(range(32))

    lines, failure = run("webhooks", "reseal", "--reason", "a year is over")

    assert failure is None
    count = json.loads(lines[-1])["resealed"]
    entry = AuditEntry.objects.latest("id")
    assert count >= 1
    assert (entry.action, entry.author, entry.reason, entry.after) == (
        "webhook.secrets_resealed", AUTHOR, "a year is over", {"count": count})  # fmt: skip


@pytest.mark.parametrize("arguments", [["webhooks"], ["webhooks", "secret"], ["webhooks", "reseal"]])
def test_the_command_explains_itself(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        call_command(*arguments, "--help")

    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_a_signing_secret_is_shown_and_it_is_recorded_that_it_was(db):
    service = make_told_service()

    lines, failure = run("webhooks", "secret", service.id, "--reason", "They lost it")

    (secret,) = reveal_secrets(service.id, by="ann")
    assert failure is None
    assert secret in lines
    assert json.loads(lines[-1]) == {"service": service.id, "secrets": [{"secret": secret, "endsAt": None}]}
    (entry,) = AuditEntry.objects.filter(reason="They lost it")
    assert (entry.author, entry.subject) == (AUTHOR, service.id)
    assert secret not in json.dumps(entry.after, default=str)


def test_a_service_without_webhooks_has_no_secret_to_show(db):
    _, failure = run("webhooks", "secret", make_service().id)

    assert failure is not None
