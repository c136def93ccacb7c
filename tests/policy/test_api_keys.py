"""API keys: their form, what is stored of them, and the operations that make and revoke them."""

import hashlib
import re
import string
import zlib
from datetime import timedelta

import pytest
from django.db import connection

from foundation.kernel.errors import InvalidApiKey, OperationRefused
from foundation.kernel.times import utc_now
from policy.api_keys import is_well_formed, new_key
from policy.key_operations import create_api_key, revoke_api_key
from policy.models import ApiKey
from tests.support.callers import find_valid_key

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


def test_a_key_is_a_prefix_32_random_letters_and_6_of_crc32():
    key = new_key()

    random, checksum = key[4:36], key[36:]
    value = sum(BASE62.index(letter) * 62**place for place, letter in enumerate(reversed(checksum)))
    assert re.fullmatch(r"alw_[0-9A-Za-z]{38}", key)
    assert value == zlib.crc32(random.encode())
    assert is_well_formed(key)


def test_two_keys_differ():
    assert len({new_key() for _ in range(100)}) == 100


def test_a_key_with_any_one_letter_changed_is_not_well_formed():
    key = new_key()

    for place in range(len(key)):
        other = "1" if key[place] != "1" else "2"
        assert not is_well_formed(key[:place] + other + key[place + 1 :])


@pytest.mark.parametrize("spoil", [str.upper, str.lower, lambda key: key + "\n", lambda key: key[:-1], lambda _key: ""])
def test_a_key_that_was_copied_badly_is_not_well_formed(spoil):
    assert not is_well_formed(spoil(new_key()))


@pytest.mark.django_db
def test_only_the_sha256_of_a_key_is_stored():
    record, key = create_api_key(name="laptop", by="test")

    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(row)::text FROM policy_apikey row WHERE id = %s", [record.id])
        row = cursor.fetchone()[0]
    assert bytes(record.digest) == hashlib.sha256(key.encode()).digest()
    assert key not in row
    assert key[12:] not in row


@pytest.mark.django_db
def test_a_key_that_is_bound_to_no_agent_may_do_everything():
    record, _ = create_api_key(by="test")

    assert set(record.scopes) == {"payments", "budgets", "services", "logs"}


def test_a_key_that_is_bound_to_an_agent_registers_no_services(agent):
    record, _ = create_api_key(agent_id=agent.id, by="test")

    assert set(record.scopes) == {"payments", "budgets", "logs"}


def test_a_bound_key_has_the_scope_services_when_it_is_named(agent):
    record, _ = create_api_key(agent_id=agent.id, scopes=["services"], by="test")

    assert record.scopes == ["services"]


@pytest.mark.django_db
def test_a_key_cannot_be_bound_to_an_agent_that_does_not_exist():
    with pytest.raises(OperationRefused, match="There is no agent nobody"):
        create_api_key(agent_id="nobody", by="test")


@pytest.mark.parametrize("seconds", [0, -1, 10**10, 10**20])
@pytest.mark.django_db
def test_the_life_of_a_key_is_between_a_second_and_a_century(seconds):
    with pytest.raises(OperationRefused, match="seconds"):
        create_api_key(expires_in_s=seconds, by="test")


@pytest.mark.django_db
def test_a_key_expires_when_its_life_is_over():
    record, key = create_api_key(expires_in_s=60, by="test")
    assert find_valid_key(key).key_id == record.pk
    assert record.expires_at == record.created_at + timedelta(seconds=60)

    ApiKey.objects.filter(pk=record.pk).update(expires_at=utc_now())
    with pytest.raises(InvalidApiKey):
        find_valid_key(key)


@pytest.mark.django_db
def test_a_key_is_revoked_by_its_id_or_by_itself():
    record, key = create_api_key(by="test")
    other, other_key = create_api_key(by="test")

    assert revoke_api_key(record.id, by="test").revoked_at is not None
    assert revoke_api_key(other_key, by="test").pk == other.pk
    for revoked in (key, other_key):
        with pytest.raises(InvalidApiKey):
            find_valid_key(revoked)


@pytest.mark.django_db
def test_revoking_a_key_twice_keeps_the_first_moment():
    record, key = create_api_key(by="test")
    first = revoke_api_key(key, by="test").revoked_at

    assert revoke_api_key(record.id, by="test").revoked_at == first


@pytest.mark.django_db
def test_a_key_that_does_not_exist_cannot_be_revoked():
    with pytest.raises(OperationRefused, match="no such API key"):
        revoke_api_key(new_key(), by="test")


@pytest.mark.django_db
def test_the_last_use_of_a_key_is_recorded():
    record, key = create_api_key(by="test")
    assert record.last_used_at is None

    before = utc_now()
    find_valid_key(key)

    assert ApiKey.objects.filter(pk=record.pk, last_used_at__gte=before).exists()


@pytest.mark.django_db
def test_a_use_after_the_first_minute_is_recorded_again():
    record, key = create_api_key(by="test")
    long_ago = utc_now() - timedelta(minutes=2)
    ApiKey.objects.filter(pk=record.pk).update(last_used_at=long_ago)

    find_valid_key(key)

    assert ApiKey.objects.filter(pk=record.pk, last_used_at__gt=long_ago + timedelta(minutes=1)).exists()
