"""What deliveries are signed with: kept encrypted, bound to a service, rotated with a day of both."""

import base64
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from standardwebhooks import Webhook

from foundation.kernel.errors import OperationRefused
from services.models import WebhookSecret
from services.webhooks.operations import reseal_secrets, reveal_secrets, rotate_secret
from services.webhooks.signing_secrets import SecretUnreadable, add_secret, as_text, seal, secrets_in_force, unseal
from tests.services.webhooks.told import DAY, MINUTE, SECOND, Payee

pytestmark = pytest.mark.django_db

MOMENT = timedelta(microseconds=1)
OTHER_KEY = bytes(range(32))


def secrets_of(payee, at=None):
    return tuple(secrets_in_force(payee.endpoint, at or payee.at))


def expire(payee, by):
    """Let the secrets that are being rotated out have so much less time."""
    for row in WebhookSecret.objects.filter(endpoint=payee.id, expires_at__isnull=False):
        row.expires_at -= by
        row.save()


# --- At rest ----------------------------------------------------------------------------------------------------------
def test_a_secret_is_made_when_it_is_needed_first_and_kept():
    payee, other = Payee(), Payee()

    (secret,) = secrets_of(payee)

    assert len(secret) == 32
    assert secrets_of(payee) == (secret,)
    assert secrets_of(other) != (secret,)
    assert WebhookSecret.objects.filter(endpoint=payee.id).count() == 1


def test_the_database_does_not_know_a_secret_in_any_form():
    payee = Payee()
    (secret,) = secrets_of(payee)

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ciphertext, secret::text FROM services_webhooksecret AS secret WHERE endpoint_id = %s", [payee.id]
        )
        ciphertext, row = cursor.fetchone()

    for form in (secret, secret.hex().encode(), base64.b64encode(secret), base64.urlsafe_b64encode(secret)):
        assert form not in bytes(ciphertext)
        assert form.decode("latin-1") not in row


def test_the_same_secret_is_never_sealed_alike():
    assert seal(b"s" * 32, "a") != seal(b"s" * 32, "a")


def test_a_row_that_is_copied_to_another_service_opens_nowhere():
    payee, other = Payee(), Payee()
    secrets_of(payee)
    row = WebhookSecret.objects.get(endpoint=payee.id)

    WebhookSecret.objects.create(endpoint=other.endpoint, ciphertext=row.ciphertext, created_at=other.at)

    with pytest.raises(SecretUnreadable, match=other.id):
        secrets_of(other)


def test_what_was_sealed_under_an_earlier_key_opens_and_what_is_sealed_now_has_the_new_one(settings):
    old = settings.WEBHOOK_SECRETS_KEY
    sealed = seal(b"secret", "a")

    settings.WEBHOOK_SECRETS_KEY = OTHER_KEY
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = (bytes(32), old)
    assert unseal(sealed, "a") == b"secret"

    sealed = seal(b"newer", "a")
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = ()
    assert unseal(sealed, "a") == b"newer"


@pytest.mark.parametrize("length", [0, 7, 12, 27, -1])
def test_a_damaged_row_is_unreadable_and_no_accident(length):
    sealed = seal(b"secret", "a")

    with pytest.raises(SecretUnreadable):
        unseal(sealed[:length], "a")


def test_a_changed_row_is_unreadable():
    sealed = bytearray(seal(b"secret", "a"))
    sealed[-1] ^= 1

    with pytest.raises(SecretUnreadable):
        unseal(bytes(sealed), "a")


def test_an_endpoint_has_one_current_secret():
    payee = Payee()
    secrets_of(payee)

    with pytest.raises(IntegrityError, match="webhook_secret_one_current"), transaction.atomic():
        WebhookSecret.objects.create(endpoint=payee.endpoint, ciphertext=b"0" * 60, created_at=payee.at)


def test_who_makes_a_secret_after_another_has_gets_that():
    payee = Payee()
    (secret,) = secrets_of(payee)

    add_secret(payee.endpoint, payee.at)

    assert secrets_of(payee) == (secret,)


# --- Shown to staff ---------------------------------------------------------------------------------------------------
def test_a_secret_is_shown_as_the_reference_library_reads_it():
    payee = Payee()
    (secret,) = secrets_of(payee)

    (text,) = reveal_secrets(payee.id, by="ann")

    assert text == as_text(secret) == "whsec_" + base64.b64encode(secret).decode()
    assert Webhook(text).sign("evt_1", payee.at, "{}") == Webhook(secret).sign("evt_1", payee.at, "{}")


def test_a_secret_is_shown_before_anything_was_sent():
    payee = Payee()

    (text,) = reveal_secrets(payee.id, by="ann")

    assert [as_text(secret) for secret in secrets_of(payee)] == [text]


def test_a_secret_that_cannot_be_read_is_refused_with_the_reason(settings):
    payee = Payee()
    secrets_of(payee)
    settings.WEBHOOK_SECRETS_KEY = OTHER_KEY

    with pytest.raises(OperationRefused, match=f"secret of {payee.id} was encrypted under another key"):
        reveal_secrets(payee.id, by="ann")


@pytest.mark.parametrize("operation", [reveal_secrets, rotate_secret])
def test_a_service_without_an_endpoint_has_no_secret(operation):
    with pytest.raises(OperationRefused, match="nobody has no webhook endpoint"):
        operation("nobody", by="ann")


# --- Rotated ----------------------------------------------------------------------------------------------------------
def test_after_a_rotation_both_sign_for_24_hours_the_new_one_first():
    payee = Payee()
    (old,) = secrets_of(payee)

    assert rotate_secret(payee.id, by="ann").pk == payee.id

    ends_at = WebhookSecret.objects.get(endpoint=payee.id, expires_at__isnull=False).expires_at
    assert ends_at == WebhookSecret.objects.get(endpoint=payee.id, expires_at=None).created_at + DAY
    new, second = secrets_of(payee, ends_at - MOMENT)
    assert second == old
    assert new != old
    assert list(reveal_secrets(payee.id, by="ann").items()) == [(as_text(new), None), (as_text(old), ends_at)]
    assert secrets_of(payee, ends_at) == (new,)


def test_a_claim_has_both_secrets_while_one_is_rotated():
    payee = Payee()
    secrets_of(payee)
    rotate_secret(payee.id, by="ann")
    payee.hear()

    (claimed,) = payee.claim()

    assert [as_text(secret) for secret in claimed.secrets] == list(reveal_secrets(payee.id, by="ann"))


def test_of_two_rotations_within_24_hours_each_secret_keeps_its_own_day():
    payee = Payee()
    (first,) = secrets_of(payee)
    rotate_secret(payee.id, by="ann")
    expire(payee, MINUTE)
    rotate_secret(payee.id, by="ann")

    shown = reveal_secrets(payee.id, by="ann")
    third, second, oldest = (base64.b64decode(text.removeprefix("whsec_")) for text in shown)

    assert oldest == first
    current, later, earlier = shown.values()
    assert current is None
    assert later is not None
    assert earlier is not None
    assert later - earlier > MINUTE - SECOND
    assert secrets_of(payee, earlier) == (third, second)
    assert secrets_of(payee, later) == (third,)


def test_a_rotation_forgets_what_signs_no_more():
    payee = Payee()
    secrets_of(payee)
    rotate_secret(payee.id, by="ann")
    expire(payee, DAY)
    assert len(reveal_secrets(payee.id, by="ann")) == 1

    rotate_secret(payee.id, by="ann")

    assert WebhookSecret.objects.filter(endpoint=payee.id).count() == 2


def test_a_rotation_before_the_first_delivery_makes_one_secret():
    payee = Payee()

    rotate_secret(payee.id, by="ann")

    assert len(reveal_secrets(payee.id, by="ann")) == 1


def test_a_rotation_ends_the_silence_after_a_lost_key(settings):
    payee = Payee()
    secrets_of(payee)
    key, settings.WEBHOOK_SECRETS_KEY = settings.WEBHOOK_SECRETS_KEY, OTHER_KEY

    rotate_secret(payee.id, by="ann")

    (new,) = secrets_of(payee)
    # Should the key be found within the day, what it closed signs again.
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = (key,)
    assert secrets_of(payee)[0] == new
    assert len(secrets_of(payee)) == 2


def test_after_resealing_the_earlier_key_is_needed_no_more(settings):
    payee, other = Payee(), Payee()
    known = {one.id: secrets_of(one) for one in (payee, other)}
    rotate_secret(payee.id, by="ann")
    known[payee.id] = secrets_of(payee)
    earlier, settings.WEBHOOK_SECRETS_KEY = settings.WEBHOOK_SECRETS_KEY, OTHER_KEY
    before = WebhookSecret.objects.count()

    with pytest.raises(OperationRefused, match="WEBHOOK_SECRETS_KEY_FALLBACKS"):
        reseal_secrets(by="ann")
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = (earlier,)
    assert [reseal_secrets(by="ann", reason="a year is over") for _ in range(2)] == [before, 0]
    settings.WEBHOOK_SECRETS_KEY_FALLBACKS = ()

    assert {one.id: secrets_of(one) for one in (payee, other)} == known


def test_each_secret_is_shown_with_its_own_end_beside_one_that_nothing_opens(settings):
    payee = Payee()
    (oldest,) = secrets_of(payee)
    key, settings.WEBHOOK_SECRETS_KEY = settings.WEBHOOK_SECRETS_KEY, OTHER_KEY
    rotate_secret(payee.id, by="ann")
    ends_at = WebhookSecret.objects.get(endpoint=payee.id, expires_at__isnull=False).expires_at
    settings.WEBHOOK_SECRETS_KEY = key

    rotate_secret(payee.id, by="ann")

    (_, current_end), rotated = reveal_secrets(payee.id, by="ann").items()
    assert (current_end, rotated) == (None, (as_text(oldest), ends_at))
