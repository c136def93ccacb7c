"""Find a registered service, lock it for a change, and check that it is the one that somebody looked at."""

from django.db.models import QuerySet

from foundation.database import SERVICE_LOCK
from foundation.groups import lock_everywhere
from foundation.kernel.errors import OperationRefused
from services.models import Service


def check_number(service: Service, registration: int | None) -> None:
    """Refuse a registration that changed after it was shown; `registration` None: any is meant."""
    if registration is not None and service.registration != registration:
        raise OperationRefused(f"{service.id} was changed after it was shown. Look at it again.")


def lock_service(service_id: str) -> Service:
    """Lock a service for a change: no payment to it is being decided until the transaction ends.

    Raises:
        OperationRefused: there is none.
    """
    lock_everywhere(SERVICE_LOCK, service_id)
    return find_service(Service.objects.select_for_update(no_key=True), service_id)


def find_service(services: QuerySet[Service], service_id: str) -> Service:
    """Find a service among these.

    Raises:
        OperationRefused: there is none.
    """
    service = services.filter(pk=service_id).first()
    if service is None:
        raise OperationRefused(f"There is no service {service_id}.")
    return service
