"""`manage.py resume_agent ID [--reason R]`: see `change agent.resume`."""

from ledger.serializers import present_budget
from staff.commands import OfKind


class Command(OfKind):
    help = "Resume a paused agent. Prints its budget."
    kind = "agent.resume"
    show = staticmethod(present_budget)
