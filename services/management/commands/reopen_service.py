"""`manage.py reopen_service ID --reason R`: see `change service.reopen`."""

from services.serializers import show_service
from staff.commands import OfKind


class Command(OfKind):
    help = (
        "Take up again a service that was rejected: it is pending once more, as it is registered. Prints the service."
    )
    kind = "service.reopen"
    subject = ("id", "service")
    reason_is_needed = True
    show = staticmethod(show_service)
