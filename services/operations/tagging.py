"""Give a payee its tags, the groups that policies may allow (`allowed_tags`).

Staff do so alone: no API key does. A tag is as good as an approval to the agents whose policies allow it, so who adds
one needs a second person (`services.tag_changes`). Tags stay when a payee is registered anew: as with a payee that
policies name, its new recipient is approved first.
"""

from collections.abc import Collection

from django.db import transaction

from foundation.kernel.errors import OperationRefused
from policy.tags import check_tags
from services.models import Service
from services.operations.registered import check_number, lock_service
from staff.audit import record


def set_tags(
    service_id: str,
    tags: Collection[str],
    *,
    by: str,
    reason: str = "",
    seen: Collection[str] | None = None,
    registration: int | None = None,
) -> Service:
    """Give a service these tags and no others. They hold for every decision once this returns.

    `seen` and `registration`: the tags and the registration that the author saw; if there are others, nothing changes.

    Raises:
        OperationRefused: no such service, no tags, they are as asked already, or it was changed since it was seen.
    """
    tags = _checked(tags)
    with transaction.atomic():
        service = lock_service(service_id)
        check_number(service, registration)
        before = service.tags
        _check_change(service, tags, seen)
        service.tags = tags
        service.save(update_fields=["tags"])
        after = {"tags": tags, "registration": service.registration}
        record(
            "service.tagged", subject_type="service", subject=service.id, by=by, reason=reason,
            before={"tags": before}, after=after,
        )  # fmt: skip
    return service


def _check_change(service: Service, tags: list[str], seen: Collection[str] | None) -> None:
    if seen is not None and sorted(seen) != service.tags:
        raise OperationRefused(f"The tags of {service} were changed meanwhile. Look at it again.")
    if service.tags == tags:
        raise OperationRefused(f"{service} has just these tags already.")


def _checked(tags: Collection[str]) -> list[str]:
    try:
        return list(check_tags(tags))
    except ValueError as error:
        raise OperationRefused(f"tags: {error}") from error
