"""`manage.py disable_service ID [--reason R]`: see `change service.disable`."""

from services.serializers import show_service
from staff.commands import OfKind


class Command(OfKind):
    help = "Disable an approved service: payments to it are refused from now on. Prints the service."
    kind = "service.disable"
    subject = ("id", "service")
    show = staticmethod(show_service)
