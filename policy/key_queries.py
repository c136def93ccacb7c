"""What state a key is in."""

from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Q
from django.db.models.functions import Coalesce

from policy.models import ApiKey

# A key that ends within this time is to be replaced; one that nobody used for this time is to be revoked.
EXPIRES_SOON = timedelta(days=14)
UNUSED = timedelta(days=90)


class KeyState(StrEnum):
    """The state of a key, of which it has one. An unused one is in force, too, and is found by `unused`."""

    IN_FORCE = "in force"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    REVOKED = "revoked"


def state_of(key: ApiKey, now: datetime) -> KeyState:
    """Tell the state of a key at a moment."""
    if key.revoked_at is not None:
        return KeyState.REVOKED
    if key.expires_at is None or key.expires_at > now + EXPIRES_SOON:
        return KeyState.IN_FORCE
    return KeyState.EXPIRING if key.expires_at > now else KeyState.EXPIRED


def in_state(state: KeyState, now: datetime) -> Q:
    """Choose the keys in a state; every key that is accepted is in force, those that expire soon among them."""
    if state is KeyState.REVOKED:
        return Q(revoked_at__isnull=False)
    if state is KeyState.EXPIRED:
        return Q(revoked_at=None, expires_at__lte=now)
    if state is KeyState.EXPIRING:
        return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=now + EXPIRES_SOON)
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


def is_unused(key: ApiKey, now: datetime) -> bool:
    """Tell whether a key is in force and nobody used it for 90 days, nor was it made since."""
    is_in_force = state_of(key, now) in (KeyState.IN_FORCE, KeyState.EXPIRING)
    return is_in_force and (key.last_used_at or key.created_at) < now - UNUSED


def unused(now: datetime) -> Q:
    """Choose the keys in force that nobody used for 90 days, and that were not made since."""
    lately = ApiKey.objects.alias(used=Coalesce("last_used_at", "created_at")).filter(used__gte=now - UNUSED)
    return in_state(KeyState.IN_FORCE, now) & ~Q(pk__in=lately.values("pk"))
