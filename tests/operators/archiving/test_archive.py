"""`manage.py archive`: what is over and old goes into files, and then out of the database; nothing else does."""

import gzip
import hashlib
import json
import stat
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection, transaction

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from operators.archiving.operations import archive
from payments.lifecycle import SettlementState
from payments.models import Settlement, Transition
from services.models import DeliveryState, WebhookAttempt, WebhookDelivery, WebhookEvent
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.scenes import Scene, transaction_of
from tests.support.webhook_rows import make_attempt, make_delivery, make_endpoint

pytestmark = pytest.mark.django_db

OLD = timedelta(days=100)
OVER = {"state": DeliveryState.DELIVERED, "attempts": 1}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archive"


def run_archive(folder, *options):
    """Archive what is older than 90 days; returns what the command told."""
    lines, error = run("archive", "--to", str(folder), "--older-than", "90", *options)
    assert error is None, error
    return json.loads(lines[-1])


def rows_of(folder, kind="*"):
    """Read the rows of all files of a kind that are complete."""
    files = sorted(folder.glob(f"{kind}-*.jsonl.gz"))
    return [json.loads(line)["row"] for file in files for line in gzip.open(file, "rt", encoding="utf-8")]


def manifest_of(folder):
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def make_old(endpoint, *, age=OLD, tried=OLD, **fields):
    """Make a delivery that was made and tried so long ago."""
    delivery = make_delivery(endpoint, at=utc_now() - age, **{**OVER, **fields})
    make_attempt(delivery, started_at=utc_now() - tried, answer="first\nsecond \u2028")
    return delivery


def test_an_old_delivery_goes_with_its_event_and_its_attempts_and_can_be_read_in_the_file(folder):
    delivery = make_old(make_endpoint())
    attempt = WebhookAttempt.objects.get(delivery=delivery)

    told = run_archive(folder)

    assert told["removed"]["deliveries"] == 1
    (row,) = rows_of(folder, "deliveries")
    assert (row["event"]["id"], row["event"]["payload"]) == (delivery.pk, delivery.event.payload)
    assert (row["delivery"]["state"], row["attempts"][0]["answer"]) == ("delivered", attempt.answer)
    for model in (WebhookEvent, WebhookDelivery, WebhookAttempt):
        assert not model.objects.filter(pk__in=[delivery.pk] if model is not WebhookAttempt else [attempt.pk]).exists()


def test_each_month_has_a_file_that_only_its_owner_can_read_and_the_manifest_and_the_audit_name(folder):
    endpoint = make_endpoint()
    for age in (100, 101, 200):
        make_old(endpoint, age=timedelta(days=age))
    run_archive(folder)
    written, removed = [[line for line in manifest_of(folder) if name in line] for name in ("sha256", "removed")]
    assert len({line["month"] for line in written}) == len(written) >= 2
    assert sum(line["rows"] for line in written) == 3
    assert [line["file"] for line in written] == [line["removed"] for line in removed]
    for line in written:
        path = folder / line["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == line["sha256"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        entry = AuditEntry.objects.get(action="history.archived", subject=line["file"])
        assert (entry.after or {})["sha256"] == line["sha256"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "kept",
    [
        {"age": timedelta(days=89), "tried": timedelta(days=89)},
        {"state": DeliveryState.WAITING, "next_attempt_at": utc_now()},
        {"tried": timedelta(days=1)},
    ],
    ids=["young", "waits", "sent again lately"],
)
def test_a_delivery_that_is_young_or_waits_or_was_tried_lately_stays(folder, kept):
    delivery = make_old(make_endpoint(), **kept)
    assert run_archive(folder)["removed"]["deliveries"] == 0
    assert WebhookDelivery.objects.filter(pk=delivery.pk).exists()
    assert WebhookAttempt.objects.filter(delivery=delivery).count() == 1


def old_transition(*, is_settled):
    """Make a payment whose transaction changed its state long ago."""
    scene = Scene()
    payment = scene.pay_and_send()
    if is_settled:
        scene.chain.include(transaction_of(payment))
        assert scene.confirm() == 1
    row = Settlement.objects.get(payments=payment)
    then = utc_now() - OLD
    Settlement.objects.filter(pk=row.pk).update(changed_at=then)
    return Transition.objects.create(settlement=row, old="signed", new="broadcast", reason="Old.", created_at=then)


def test_changes_of_a_transaction_that_has_ended_are_archived(folder):
    one = old_transition(is_settled=True)
    run_archive(folder)
    assert not Transition.objects.filter(pk=one.pk).exists()
    assert [row["reason"] for row in rows_of(folder, "transitions") if row["id"] == one.pk] == ["Old."]
    one.settlement.refresh_from_db()
    assert one.settlement.state == SettlementState.FINAL


def test_the_page_of_a_payment_whose_changes_are_archived_says_so(admin_client):
    one = old_transition(is_settled=True)
    address = f"/console/payments/payment/{one.settlement.first_payment_id}/change/"
    assert "The changes before are archived." not in admin_client.get(address).content.decode()
    with connection.cursor() as cursor:  # all of them, as if they were old, too
        cursor.execute("SET LOCAL session_replication_role = replica; DELETE FROM payments_transition")
        cursor.execute("DELETE FROM services_webhookdelivery; DELETE FROM services_webhookevent")
    page = admin_client.get(address).content.decode()
    assert "The changes before are archived." in page
    assert "in a final block" in page
    assert "they are archived" in page  # the webhooks


def test_changes_of_a_payment_that_is_open_stay(folder):
    one = old_transition(is_settled=False)
    run_archive(folder)
    assert Transition.objects.filter(pk=one.pk).exists()


@pytest.mark.parametrize("is_archiving", ["off", "on"])
def test_nobody_removes_a_young_change_nor_an_old_one_by_accident(is_archiving):
    old = old_transition(is_settled=True)
    young = Transition.objects.filter(settlement=old.settlement).exclude(pk=old.pk).first()
    for one in [young] if is_archiving == "on" else [young, old]:
        with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL allowance.archiving = '{is_archiving}'; {_remove(one)}")


def test_a_role_that_does_not_own_the_table_removes_nothing_whatever_it_sets():
    one = old_transition(is_settled=True)
    with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE ROLE thief; GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA public TO thief;"
            f"SET LOCAL ROLE thief; SET LOCAL allowance.archiving = 'on'; {_remove(one)}"
        )


def _remove(one):
    return f"DELETE FROM payments_transition WHERE id = {one.pk}"  # noqa: S608 - a number


def test_sessions_are_archived_without_their_keys_and_those_that_go_on_stay(folder):
    user = get_user_model().objects.create_user("fiona")
    for key, ends in (("gone", -1), ("live", 1)):
        Session.objects.create(session_key=key, session_data="", expire_date=utc_now() + timedelta(hours=ends))
        UserSession.objects.create(user=user, session_key=key, ip="203.0.113.7", user_agent="Firefox")
    UserSession.objects.filter(user=user).update(last_seen_at=utc_now() - OLD)
    run_archive(folder)
    (row,) = rows_of(folder, "sessions")
    assert (row["user"], row["ip"], row["user_agent"]) == ("fiona", "203.0.113.7", "Firefox")
    assert "gone" not in json.dumps(row)
    assert [session.session_key for session in UserSession.objects.filter(user=user)] == ["live"]
    assert not Session.objects.filter(session_key="gone").exists()


def test_a_dry_run_counts_and_changes_nothing(folder):
    delivery = make_old(make_endpoint())
    told = run_archive(folder, "--dry-run")
    assert (told["rows"]["deliveries"], told["isDryRun"]) == (1, True)
    assert WebhookDelivery.objects.filter(pk=delivery.pk).exists()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "Say --older-than DAYS, or set RETENTION_DAYS"),
        (("--older-than", "29"), "--older-than is at least 30 days"),
    ],
)
def test_without_a_number_of_days_or_with_a_small_one_nothing_happens(folder, options, problem):
    assert problem in run("archive", "--to", str(folder), *options)[1]
    assert not folder.exists()


def test_the_setting_says_how_old_by_default(folder, settings):
    settings.RETENTION_DAYS = 60
    make_old(make_endpoint(), age=timedelta(days=70), tried=timedelta(days=70))
    lines, _ = run("archive", "--to", str(folder))
    assert json.loads(lines[-1])["removed"]["deliveries"] == 1


def test_a_run_that_was_cut_off_while_it_removed_is_finished_by_the_next_one(folder, monkeypatch):
    monkeypatch.setattr("operators.archiving.operations._REMOVED_AT_ONCE", 2)
    endpoint = make_endpoint()
    deliveries = {make_old(endpoint).pk for _ in range(5)}

    def end(_removed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive(folder, utc_now() - timedelta(days=90), end)
    left = {*WebhookDelivery.objects.filter(pk__in=deliveries).values_list("pk", flat=True)}
    assert len(left) == 3
    assert run_archive(folder)["removed"]["deliveries"] == 3
    assert not WebhookDelivery.objects.filter(pk__in=deliveries).exists()
    assert sorted(row["event"]["id"] for row in rows_of(folder, "deliveries")) == sorted(deliveries)


def test_a_file_that_the_manifest_knows_gets_its_name_after_a_crash_and_its_rows_are_not_written_twice(folder):
    delivery = make_old(make_endpoint())
    with transaction.atomic():
        run_archive(folder)
        transaction.set_rollback(True)  # the rows are there again
    (file,) = folder.glob("deliveries-*.gz")
    file.rename(f"{file}.part")
    lines = (folder / "manifest.jsonl").read_text().splitlines(keepends=True)
    (folder / "manifest.jsonl").write_text("".join(line for line in lines if "removed" not in line))
    run_archive(folder)
    assert [*folder.glob("deliveries-*")] == [file]
    assert not WebhookDelivery.objects.filter(pk=delivery.pk).exists()


def test_what_was_half_written_is_written_again(folder):
    delivery = make_old(make_endpoint())
    folder.mkdir(mode=0o700)
    (folder / "deliveries-2026-01-x.jsonl.gz.part").write_bytes(b"half")
    (folder / "manifest.jsonl").write_text('{"file": "deliveries-2026-01-y.jso')
    run_archive(folder)
    assert [row["event"]["id"] for row in rows_of(folder, "deliveries")] == [delivery.pk]
    assert not [*folder.glob("*.part")]
    assert run_archive(folder)["files"] == []


def test_nothing_is_removed_on_the_word_of_a_file_that_was_changed(folder):
    delivery = make_old(make_endpoint())
    with transaction.atomic():
        run_archive(folder)
        transaction.set_rollback(True)
    (file,) = folder.glob("deliveries-*.gz")
    file.write_bytes(gzip.compress(b"{}"))
    lines = (folder / "manifest.jsonl").read_text().splitlines(keepends=True)
    (folder / "manifest.jsonl").write_text("".join(line for line in lines if "removed" not in line))
    with pytest.raises(OperationRefused, match="was changed since it was written"):
        archive(folder, utc_now() - timedelta(days=90), lambda _rows: None)
    assert WebhookDelivery.objects.filter(pk=delivery.pk).exists()


@pytest.mark.parametrize("tried", [timedelta(days=29), OLD])
def test_what_is_young_stays_whatever_the_manifest_says(folder, tried):
    delivery = make_old(make_endpoint(), age=timedelta(days=29), tried=tried)

    archive(folder, utc_now() - timedelta(days=1), lambda _rows: None)

    assert manifest_of(folder)
    assert WebhookDelivery.objects.filter(pk=delivery.pk).exists()


@pytest.mark.parametrize("mode", [0o770, 0o705])
def test_a_folder_that_others_reach_is_refused_since_its_manifest_says_what_is_removed(folder, mode):
    make_old(make_endpoint())
    folder.mkdir()
    folder.chmod(mode)

    _, refused = run("archive", "--to", str(folder), "--older-than", "90")

    assert refused is not None
    assert "is not yours alone" in refused
    assert [*folder.iterdir()] == []
    assert WebhookEvent.objects.exists()
