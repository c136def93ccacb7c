"""Issue, rotate and revoke API keys. The key itself is in nothing but what these return: no row, no log, no entry."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction

from foundation.database import fetch_rows, write_rows
from foundation.groups import WHOLE, group_here, name_here, on_own_copies, outside_groups
from foundation.kernel.errors import OperationRefused
from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant, utc_now
from policy import api_keys
from policy.address_ranges import read_ranges
from policy.models import Agent, ApiKey, Scope
from staff.audit import record

# A key that was rotated is in force for this long beside the one that replaces it.
BOTH_IN_FORCE = timedelta(hours=24)
MAX_KEY_NAME_LENGTH = 100
MAX_LIFETIME_S = 100 * 365 * 24 * 60 * 60

_WHICH = "SELECT count(*), sum(hashtext(id)) FROM {} WHERE revoked_at IS NOT NULL"
_REVOKE = """
    UPDATE {} k SET revoked_at = r.moment FROM unnest(%(ids)s::text[], %(moments)s::timestamptz[]) r(id, moment)
     WHERE k.id = r.id AND k.revoked_at IS NULL
"""


def create_api_key(
    *,
    by: str,
    agent_id: str | None = None,
    scopes: Sequence[str] | None = None,
    expires_in_s: int | None = None,
    name: str = "",
    address_ranges: Sequence[str] = (),
    own_payees_only: bool = False,
    reason: str = "",
) -> tuple[ApiKey, str]:
    """Make an API key; returns its record and the key, which is shown only now.

    `address_ranges` are in CIDR form; without any, the key is accepted from everywhere. With `own_payees_only` it
    changes no payee but those that it, or one that it replaces or that replaces it, has registered.

    Raises:
        OperationRefused: no such agent, or it is archived; the name is too long, the lifetime is not between a second
            and a century, something is no address range, or a key that registers no payees is limited to its own.
    """
    if len(name) > MAX_KEY_NAME_LENGTH:
        raise OperationRefused(f"A key's name has at most {MAX_KEY_NAME_LENGTH} characters.")
    lifetime = _read_lifetime(expires_in_s)
    if agent_id is not None:
        _check_agent(agent_id)
    permits = sorted(set(scopes)) if scopes else _default_scopes(agent_id)
    if own_payees_only and Scope.SERVICES not in permits:
        raise OperationRefused("Without the scope services a key registers no payees: do not limit it to its own.")
    key_id = _new_id()
    with transaction.atomic():
        return _issue(
            lifetime, by, reason, id=key_id, name=name, agent_id=agent_id, scopes=permits,
            address_ranges=_read_ranges(address_ranges), registers_as=key_id if own_payees_only else None,
        )  # fmt: skip


def rotate_api_key(key_or_id: str, *, by: str, reason: str = "") -> tuple[ApiKey, str]:
    """Replace a key by a new one that permits the same; the old one ends after 24 hours, unless it ends before.

    The new key lives as long as the old one was made for. Returns its record and the key, which is shown only now.

    Raises:
        OperationRefused: no such key, it is not in force, or it was replaced already.
    """
    with transaction.atomic():
        old = _lock(key_or_id)
        now = utc_now()
        if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
            raise OperationRefused(f"The key {old} is not in force any more: issue another one.")
        successor = ApiKey.objects.filter(replaces=old).first()
        if successor is not None:
            raise OperationRefused(f"The key {old} was replaced by {successor} already.")
        new, key = _issue(
            None if old.expires_at is None else old.expires_at - old.created_at, by, reason, id=_new_id(),
            replaces=old, name=old.name, agent_id=old.agent_id, scopes=old.scopes, address_ranges=old.address_ranges,
            registers_as=old.registers_as,
        )  # fmt: skip
        before, old.expires_at = old.expires_at, min(filter(None, (old.expires_at, now + BOTH_IN_FORCE)))
        old.save(update_fields=["expires_at"])
        ends = {"before": {"expiresAt": _moment(before)}, "after": {"expiresAt": _moment(old.expires_at)}}
        _record("rotated", old, by=by, reason=reason, **ends)
    return new, key


def revoke_api_key(key_or_id: str, *, by: str, reason: str = "") -> ApiKey:
    """Revoke a key, given by its id or by itself, at once on every process. Revoking it twice changes nothing.

    A server of the database that is away keeps nobody from it: it is told before it pays again (`bring_revocations`).

    Raises:
        OperationRefused: no such key.
    """
    with transaction.atomic(), on_own_copies(bring_revocations):
        found = _lock(key_or_id)
        if found.revoked_at is None:
            found.revoked_at = utc_now()
            found.save(update_fields=["revoked_at"])
            _record("revoked", found, by=by, reason=reason, after={"revokedAt": _moment(found.revoked_at)})
    return found


def bring_revocations() -> None:
    """Revoke on this group's node what is revoked on the coordinator; see `foundation.groups.on_own_copies`."""
    if group_here() == WHOLE:
        return
    which = _WHICH.format(name_here(ApiKey._meta.db_table))
    known = fetch_rows(which, {})
    with outside_groups():
        if fetch_rows(which, {}) == known:
            return
        statement, revoked = write_revocations()
    write_rows(statement, revoked)


def write_revocations() -> tuple[str, dict[str, Any]]:
    """Write the statement that revokes on a node what is revoked on the coordinator, and its parameters."""
    revoked = dict(ApiKey.objects.exclude(revoked_at=None).values_list("pk", "revoked_at"))
    return _REVOKE.format(name_here(ApiKey._meta.db_table)), {"ids": [*revoked], "moments": [*revoked.values()]}


def _lock(key_or_id: str) -> ApiKey:
    keys = ApiKey.objects.select_for_update()
    found = keys.filter(pk=key_or_id).first() or keys.filter(digest=api_keys.digest(key_or_id)).first()
    if found is None:
        raise OperationRefused("There is no such API key.")
    return found


def _default_scopes(agent_id: str | None) -> list[str]:
    """Every scope; but a key bound to an agent does not register payees unless it is given that scope by name."""
    return [scope for scope in Scope.values if agent_id is None or scope != Scope.SERVICES]


def _read_lifetime(seconds: int | None) -> timedelta | None:
    if seconds is not None and not 1 <= seconds <= MAX_LIFETIME_S:
        raise OperationRefused(f"A key lives between 1 and {MAX_LIFETIME_S} seconds, or until it is revoked.")
    return None if seconds is None else timedelta(seconds=seconds)


def _check_agent(agent_id: str) -> None:
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise OperationRefused(f"There is no agent {agent_id}.")
    if agent.archived_at is not None:
        raise OperationRefused(f"{agent_id} is archived: restore it first.")


def _issue(lifetime: timedelta | None, by: str, reason: str, **columns: Any) -> tuple[ApiKey, str]:
    key = api_keys.new_key()
    now = utc_now()
    issued = ApiKey.objects.create(
        digest=api_keys.digest(key),
        created_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        **columns,
    )
    facts = {
        "name": issued.name,
        "scopes": issued.scopes,
        "agent": issued.agent_id,
        "addressRanges": issued.address_ranges,
        "ownPayeesOnly": issued.registers_as is not None,
        "expiresAt": _moment(issued.expires_at),
        "replaces": issued.replaces_id,
    }
    _record("issued", issued, by=by, reason=reason, after=facts)
    return issued, key


def _new_id() -> str:
    return new_id("key", utc_now())


def _record(done: str, key: ApiKey, **entry: Any) -> None:
    record(f"api_key.{done}", subject_type="api_key", subject=key.id, **entry)


def _moment(at: Any) -> str | None:
    return None if at is None else format_instant(at)


def _read_ranges(texts: Sequence[str]) -> list[str] | None:
    try:
        return read_ranges(texts) or None
    except ValueError as error:
        raise OperationRefused(str(error)) from error
