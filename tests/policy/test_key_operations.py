"""Keys with address ranges, and keys that are replaced: what the API answers, and what the audit keeps."""

from datetime import timedelta

import pytest

from foundation.kernel.errors import InvalidApiKey, OperationRefused
from foundation.kernel.times import format_instant, utc_now
from policy.key_operations import BOTH_IN_FORCE, create_api_key, revoke_api_key, rotate_api_key
from policy.key_queries import KeyState, in_state, is_unused, state_of, unused
from policy.models import ApiKey
from staff.models import AuditEntry
from tests.support.callers import find_valid_key

pytestmark = pytest.mark.django_db
HOME = "203.0.113.0/24"


def entries(key):
    found = AuditEntry.objects.filter(subject_type="api_key", subject=key.pk).order_by("id")
    return [(entry.action, entry.author, entry.reason) for entry in found]


def test_a_key_with_ranges_is_accepted_from_inside_them_alone():
    record, key = create_api_key(address_ranges=[HOME, "2001:db8::/32"], by="kim")

    assert find_valid_key(key, "203.0.113.7").key_id == record.pk
    assert find_valid_key(key, "2001:db8::7").key_id == record.pk
    for elsewhere in ("203.0.114.1", "2001:db9::1", "", "localhost"):
        with pytest.raises(InvalidApiKey):
            find_valid_key(key, elsewhere)


def test_a_use_from_elsewhere_is_not_recorded_as_one():
    record, key = create_api_key(address_ranges=[HOME], by="kim")

    with pytest.raises(InvalidApiKey):
        find_valid_key(key, "198.51.100.1")

    record.refresh_from_db()
    assert record.last_used_at is None


def test_what_is_no_range_makes_no_key():
    before = ApiKey.objects.count()

    with pytest.raises(OperationRefused, match="no address range"):
        create_api_key(address_ranges=["here"], by="kim")

    assert ApiKey.objects.count() == before


def test_issuing_is_recorded_without_the_key():
    record, key = create_api_key(name="laptop", address_ranges=[HOME], by="kim", reason="A new agent.")

    (entry,) = AuditEntry.objects.filter(subject=record.pk)
    assert entries(record) == [("api_key.issued", "kim", "A new agent.")]
    assert (entry.after or {})["addressRanges"] == [HOME]
    assert key not in str(entry.after)


def test_a_rotated_key_works_beside_the_new_one_for_a_day(agent):
    old, old_key = create_api_key(
        agent_id=agent.id, scopes=["logs"], address_ranges=["127.0.0.0/8"], name="laptop", by="kim"
    )
    before = utc_now()

    new, new_key = rotate_api_key(old.pk, by="alex", reason="Once a year.")

    old.refresh_from_db()
    assert (new.name, new.agent_id, new.scopes, new.address_ranges) == ("laptop", agent.id, ["logs"], ["127.0.0.0/8"])
    assert (new.replaces, new.expires_at) == (old, None)
    assert old.expires_at is not None
    assert before <= old.expires_at - BOTH_IN_FORCE <= utc_now()
    assert find_valid_key(old_key).key_id == old.pk
    assert find_valid_key(new_key).key_id == new.pk
    assert entries(old)[1:] == [("api_key.rotated", "alex", "Once a year.")]
    assert entries(new) == [("api_key.issued", "alex", "Once a year.")]


def test_the_old_key_ends_after_its_day():
    old, old_key = create_api_key(by="kim")
    rotate_api_key(old_key, by="kim")
    ApiKey.objects.filter(pk=old.pk).update(expires_at=utc_now())

    with pytest.raises(InvalidApiKey):
        find_valid_key(old_key)


def test_a_key_that_ends_sooner_is_not_kept_longer_and_the_new_one_lives_as_long_as_it_did():
    old, _ = create_api_key(expires_in_s=3600, by="kim")

    new, _ = rotate_api_key(old.pk, by="kim")

    ended = old.expires_at
    old.refresh_from_db()
    assert old.expires_at == ended
    assert new.expires_at == new.created_at + timedelta(seconds=3600)


def test_a_key_is_replaced_once():
    old, _ = create_api_key(by="kim")
    new, _ = rotate_api_key(old.pk, by="kim")

    with pytest.raises(OperationRefused, match=new.pk):
        rotate_api_key(old.pk, by="kim")


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_a_key_that_is_not_in_force_is_not_replaced(end):
    old, _ = create_api_key(by="kim")
    ApiKey.objects.filter(pk=old.pk).update(**{end: utc_now()})

    with pytest.raises(OperationRefused, match="not in force"):
        rotate_api_key(old.pk, by="kim")


def test_a_revocation_is_recorded_once_with_its_reason():
    record, _ = create_api_key(by="kim")

    revoke_api_key(record.pk, by="alex", reason="Stolen.")
    revoke_api_key(record.pk, by="alex", reason="Again.")

    assert entries(record)[1:] == [("api_key.revoked", "alex", "Stolen.")]


def test_every_key_has_one_state_and_the_list_finds_it_by_that():
    now = utc_now()
    keys = {name: create_api_key(by="kim")[0] for name in ("new", "soon", "over", "gone", "old", "used")}
    change = {
        "soon": {"expires_at": now + timedelta(days=14)},
        "over": {"expires_at": now},
        "gone": {"revoked_at": now, "expires_at": now},
        "old": {"created_at": now - timedelta(days=91)},
        "used": {"created_at": now - timedelta(days=91), "last_used_at": now - timedelta(days=89)},
    }
    for name, columns in change.items():
        ApiKey.objects.filter(pk=keys[name].pk).update(**columns)
    ours = ApiKey.objects.filter(pk__in=[key.pk for key in keys.values()])

    states = {name: state_of(ours.get(pk=key.pk), now) for name, key in keys.items()}
    found = {state: {key.pk for key in ours.filter(in_state(state, now))} for state in KeyState}

    assert states == {
        "new": "in force", "soon": "expiring", "over": "expired", "gone": "revoked", "old": "in force",
        "used": "in force",
    }  # fmt: skip
    assert found == {
        "in force": {keys[name].pk for name in ("new", "soon", "old", "used")},
        "expiring": {keys["soon"].pk},
        "expired": {keys["over"].pk},
        "revoked": {keys["gone"].pk},
    }
    assert [key.pk for key in ours.filter(unused(now))] == [keys["old"].pk]
    assert [name for name, key in keys.items() if is_unused(ours.get(pk=key.pk), now)] == ["old"]


def test_the_audit_says_until_when_a_rotated_key_works():
    old, _ = create_api_key(by="kim")
    rotate_api_key(old.pk, by="kim")

    old.refresh_from_db()
    assert old.expires_at is not None
    entry = AuditEntry.objects.get(action="api_key.rotated", subject=old.pk)
    assert (entry.before, entry.after) == ({"expiresAt": None}, {"expiresAt": format_instant(old.expires_at)})
