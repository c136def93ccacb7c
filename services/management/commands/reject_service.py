"""`manage.py reject_service ID [--reason R]`: see `change service.reject`."""

from services.serializers import show_service
from staff.commands import OfKind


class Command(OfKind):
    help = "Reject a pending service. Prints the service."
    kind = "service.reject"
    subject = ("id", "service")
    show = staticmethod(show_service)
